package leveldb

import (
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
	terrace "terracedb.org/go"
)

// Snapshot is the state of a database at one moment.
type Snapshot struct {
	db       *DB
	snapshot *terrace.Snapshot
}

// GetSnapshot returns a snapshot of the current state. The caller releases it.
func (db *DB) GetSnapshot() (*Snapshot, error) {
	snapshot, err := db.db.Snapshot()
	if err != nil {
		return nil, translate(err, ErrClosed)
	}
	return &Snapshot{db, snapshot}, nil
}

// String describes the snapshot.
func (s *Snapshot) String() string {
	sequence, err := s.snapshot.Sequence()
	if err != nil {
		return "leveldb.Snapshot{released}"
	}
	return fmt.Sprintf("leveldb.Snapshot{%d}", sequence)
}

// Get returns the value of a key, or ErrNotFound.
func (s *Snapshot) Get(key []byte, _ *opt.ReadOptions) ([]byte, error) {
	value, err := s.snapshot.Get(key)
	return value, translate(err, ErrSnapshotReleased)
}

// Has reports whether a key exists.
func (s *Snapshot) Has(key []byte, _ *opt.ReadOptions) (bool, error) {
	found, err := s.snapshot.Has(key)
	return found, translate(err, ErrSnapshotReleased)
}

// NewIterator returns an iterator over the snapshot, as DB.NewIterator does. It outlives the snapshot.
func (s *Snapshot) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	it := s.snapshot.NewIterator(s.db.iterOptions(slice, ro))
	if err := it.Error(); err != nil {
		return iterator.NewEmptyIterator(translate(err, ErrSnapshotReleased))
	}
	return &dbIterator{it: it}
}

// Release ends the snapshot. A second call has no effect.
func (s *Snapshot) Release() { s.snapshot.Release() }
