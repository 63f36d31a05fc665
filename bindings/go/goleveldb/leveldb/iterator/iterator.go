// Package iterator has the interface of iterators, and iterators over arrays and over other iterators.
package iterator

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb/util"
)

// ErrIterReleased is the error of an iterator of this package after its release.
var ErrIterReleased = errors.New("leveldb/iterator: iterator released")

// IteratorSeeker moves. Each move reports whether it found an entry.
type IteratorSeeker interface {
	First() bool
	Last() bool
	// Seek moves to the first entry whose key is not less than key.
	Seek(key []byte) bool
	// Next moves to the next entry; from before the first entry, to the first.
	Next() bool
	// Prev moves to the previous entry; from after the last entry, to the last.
	Prev() bool
}

// CommonIterator is an iterator without keys and values.
type CommonIterator interface {
	IteratorSeeker
	util.Releaser
	util.ReleaseSetter
	Valid() bool
	// Error returns the first error. The end of the entries is none.
	Error() error
}

// Iterator is a cursor over entries. Key and value are valid until the next move, and nil without an
// entry. The caller does not change them.
type Iterator interface {
	CommonIterator
	Key() []byte
	Value() []byte
}

// ErrorCallbackSetter calls a function with each error of an iterator.
type ErrorCallbackSetter interface {
	SetErrorCallback(f func(err error))
}

// NewEmptyIterator returns an iterator without entries, with an error or nil.
func NewEmptyIterator(err error) Iterator { return &empty{err: err} }

type empty struct {
	util.BasicReleaser
	err error
}

func (e *empty) move() bool {
	if e.err == nil && e.Released() {
		e.err = ErrIterReleased
	}
	return false
}

func (e *empty) First() bool      { return e.move() }
func (e *empty) Last() bool       { return e.move() }
func (e *empty) Seek([]byte) bool { return e.move() }
func (e *empty) Next() bool       { return e.move() }
func (e *empty) Prev() bool       { return e.move() }
func (*empty) Valid() bool        { return false }
func (*empty) Key() []byte        { return nil }
func (*empty) Value() []byte      { return nil }
func (e *empty) Error() error     { return e.err }
