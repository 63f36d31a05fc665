package leveldb

import (
	"github.com/syndtr/goleveldb/leveldb/util"
	terrace "terracedb.org/go"
)

// dbIterator is an iterator of the engine with goleveldb's interface.
type dbIterator struct {
	util.BasicReleaser
	it *terrace.Iterator
}

func (i *dbIterator) First() bool          { return i.it.First() }
func (i *dbIterator) Last() bool           { return i.it.Last() }
func (i *dbIterator) Seek(key []byte) bool { return i.it.Seek(key) }
func (i *dbIterator) Next() bool           { return i.it.Next() }
func (i *dbIterator) Prev() bool           { return i.it.Prev() }
func (i *dbIterator) Valid() bool          { return i.it.Valid() }
func (i *dbIterator) Key() []byte          { return i.it.Key() }
func (i *dbIterator) Value() []byte        { return i.it.Value() }
func (i *dbIterator) Error() error         { return translate(i.it.Error(), ErrIterReleased) }

func (i *dbIterator) Release() {
	i.it.Release()
	i.BasicReleaser.Release()
}
