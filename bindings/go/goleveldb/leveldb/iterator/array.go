package iterator

import "github.com/syndtr/goleveldb/leveldb/util"

// BasicArray is a sorted array.
type BasicArray interface {
	Len() int
	// Search returns the index of the first key that is not less than key.
	Search(key []byte) int
}

// Array is a sorted array of entries.
type Array interface {
	BasicArray
	Index(i int) (key, value []byte)
}

// ArrayIndexer is a sorted array of iterators.
type ArrayIndexer interface {
	BasicArray
	Get(i int) Iterator
}

// arrayCursor is a position in an array: -1 is before the first item, the length after the last.
type arrayCursor struct {
	util.BasicReleaser
	array BasicArray
	at    int
	err   error
}

func (c *arrayCursor) move(to int) bool {
	if c.Released() {
		c.err = ErrIterReleased
		return false
	}
	c.at = min(max(to, -1), c.array.Len())
	return c.Valid()
}

func (c *arrayCursor) First() bool { return c.move(0) }
func (c *arrayCursor) Next() bool  { return c.move(c.at + 1) }
func (c *arrayCursor) Prev() bool  { return c.move(c.at - 1) }

// Last moves to the last item; in an empty array, it stays before the first.
func (c *arrayCursor) Last() bool { return c.move(c.array.Len() - 1) }

func (c *arrayCursor) Seek(key []byte) bool {
	if c.Released() {
		return c.move(0)
	}
	return c.move(c.array.Search(key))
}

func (c *arrayCursor) Valid() bool {
	return !c.Released() && c.at >= 0 && c.at < c.array.Len()
}

func (c *arrayCursor) Error() error { return c.err }

// NewArrayIterator returns an iterator over the entries of an array.
func NewArrayIterator(array Array) Iterator {
	return &arrayIterator{arrayCursor{array: array, at: -1}, array}
}

type arrayIterator struct {
	arrayCursor
	entries Array
}

func (i *arrayIterator) Key() []byte {
	if !i.Valid() {
		return nil
	}
	key, _ := i.entries.Index(i.at)
	return key
}

func (i *arrayIterator) Value() []byte {
	if !i.Valid() {
		return nil
	}
	_, value := i.entries.Index(i.at)
	return value
}

// NewArrayIndexer returns an index over the iterators of an array.
func NewArrayIndexer(array ArrayIndexer) IteratorIndexer {
	return &arrayIndexer{arrayCursor{array: array, at: -1}, array}
}

type arrayIndexer struct {
	arrayCursor
	iterators ArrayIndexer
}

func (i *arrayIndexer) Get() Iterator {
	if !i.Valid() {
		return nil
	}
	return i.iterators.Get(i.at)
}
