package iterator

import (
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// IteratorIndexer is an iterator whose entries are iterators.
type IteratorIndexer interface {
	CommonIterator
	// Get returns a new iterator for the current position; nil without one.
	Get() Iterator
}

// NewIndexedIterator returns an iterator over the entries of all iterators of an index, in their order.
// If it is not strict, it omits iterators with damaged data.
func NewIndexedIterator(index IteratorIndexer, strict bool) Iterator {
	return &indexed{index: index, strict: strict}
}

type indexed struct {
	util.BasicReleaser
	index    IteratorIndexer
	data     Iterator // nil before the first and after the last entry
	strict   bool
	err      error
	callback func(err error)
}

func (i *indexed) SetErrorCallback(f func(err error)) { i.callback = f }

// check records an error, and reports whether the iteration ends with it.
func (i *indexed) check(err error) bool {
	if err == nil {
		return false
	}
	if i.callback != nil {
		i.callback(err)
	}
	if !i.strict && errors.IsCorrupted(err) {
		return false
	}
	i.err = err
	return true
}

// replaceData releases the current iterator and takes that of the index.
func (i *indexed) replaceData() {
	if i.data != nil {
		i.data.Release()
	}
	i.data = i.index.Get()
}

// run moves the index with step until an iterator has an entry after its move.
func (i *indexed) run(found bool, move func(Iterator) bool, step func() bool) bool {
	for ; found; found = step() {
		i.replaceData()
		if i.data == nil {
			continue
		}
		if move(i.data) {
			return true
		}
		if i.check(i.data.Error()) {
			return false
		}
	}
	i.check(i.index.Error())
	if i.data != nil {
		i.data.Release()
		i.data = nil
	}
	return false
}

// isDone reports whether no move is possible any more.
func (i *indexed) isDone() bool {
	if i.Released() && i.err == nil {
		i.err = ErrIterReleased
	}
	return i.err != nil
}

func (i *indexed) First() bool {
	return !i.isDone() && i.run(i.index.First(), Iterator.First, i.index.Next)
}

func (i *indexed) Last() bool {
	return !i.isDone() && i.run(i.index.Last(), Iterator.Last, i.index.Prev)
}

func (i *indexed) Seek(key []byte) bool {
	if i.isDone() {
		return false
	}
	seek := func(data Iterator) bool { return data.Seek(key) }
	return i.run(i.index.Seek(key), seek, i.index.Next)
}

func (i *indexed) Next() bool {
	if i.isDone() {
		return false
	}
	if i.data != nil {
		if i.data.Next() {
			return true
		}
		if i.check(i.data.Error()) {
			return false
		}
	}
	return i.run(i.index.Next(), Iterator.First, i.index.Next)
}

func (i *indexed) Prev() bool {
	if i.isDone() {
		return false
	}
	if i.data != nil {
		if i.data.Prev() {
			return true
		}
		if i.check(i.data.Error()) {
			return false
		}
	}
	return i.run(i.index.Prev(), Iterator.Last, i.index.Prev)
}

func (i *indexed) Valid() bool { return i.data != nil && i.data.Valid() }

func (i *indexed) Key() []byte {
	if i.data == nil {
		return nil
	}
	return i.data.Key()
}

func (i *indexed) Value() []byte {
	if i.data == nil {
		return nil
	}
	return i.data.Value()
}

func (i *indexed) Error() error { return i.err }

func (i *indexed) Release() {
	if i.Released() {
		return
	}
	if i.data != nil {
		i.data.Release()
		i.data = nil
	}
	i.index.Release()
	i.BasicReleaser.Release()
}
