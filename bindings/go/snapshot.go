package terrace

// #include "terrace/terrace.h"
import "C"

import (
	"runtime"
	"sync"
)

// Snapshot is the state of a database at one moment, for reads.
type Snapshot struct {
	core *snapshotCore
	db   *DB
}

// snapshotCore is the engine's snapshot, which ends with its release or with its database.
type snapshotCore struct {
	childLinks
	mutex    sync.RWMutex // held for reading during a read
	snapshot *C.leveldb_snapshot_t
	reads    *C.leveldb_readoptions_t
	released bool
}

func (c *snapshotCore) kind() childKind { return snapshotChild }

func (c *snapshotCore) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.snapshot == nil {
		return
	}
	C.terrace_readoptions_destroy(c.reads)
	C.terrace_release_snapshot(nil, c.snapshot)
	c.snapshot = nil
}

// Snapshot creates a snapshot of the current state.
func (db *DB) Snapshot() (*Snapshot, error) {
	if !db.gate.enter() {
		return nil, ErrClosed
	}
	defer db.gate.leave()
	core := &snapshotCore{snapshot: C.terrace_create_snapshot(db.db), reads: C.terrace_readoptions_create()}
	C.terrace_readoptions_set_snapshot(core.reads, core.snapshot)
	if !db.children.add(core) {
		core.end()
		return nil, ErrClosed
	}
	h, snapshot := db.handle, &Snapshot{core, db}
	runtime.AddCleanup(snapshot, func(core *snapshotCore) { core.release(h) }, core)
	return snapshot, nil
}

func (c *snapshotCore) release(h *handle) {
	c.end()
	h.children.remove(c)
}

// Release ends the snapshot. Its iterators continue. A second call has no effect.
func (s *Snapshot) Release() {
	s.core.mutex.Lock()
	s.core.released = s.core.released || s.core.snapshot != nil
	s.core.mutex.Unlock()
	s.core.release(s.db.handle)
}

// read runs work with the snapshot.
func (s *Snapshot) read(work func() error) error {
	defer runtime.KeepAlive(s)
	s.core.mutex.RLock()
	defer s.core.mutex.RUnlock()
	if s.core.released {
		return ErrReleased
	}
	if s.core.snapshot == nil || !s.db.gate.enter() {
		return ErrClosed
	}
	defer s.db.gate.leave()
	return work()
}

// Get returns the value of a key, or ErrNotFound.
func (s *Snapshot) Get(key []byte) (value []byte, err error) {
	err = s.read(func() (err error) {
		value, err = s.db.get(s.core.reads, key)
		return err
	})
	return value, err
}

// Has reports whether a key exists.
func (s *Snapshot) Has(key []byte) (found bool, err error) {
	err = s.read(func() (err error) {
		found, err = s.db.has(s.core.reads, key)
		return err
	})
	return found, err
}

// Sequence returns the sequence number of the last write that the snapshot contains.
func (s *Snapshot) Sequence() (sequence uint64, err error) {
	err = s.read(func() error {
		sequence = uint64(C.terrace_snapshot_sequence(s.core.snapshot))
		return nil
	})
	return sequence, err
}

// NewIterator creates an iterator over the snapshot. It outlives the snapshot. An error is that of the
// iterator.
func (s *Snapshot) NewIterator(options *IterOptions) (it *Iterator) {
	err := s.read(func() error {
		if err := options.check(); err != nil {
			return err
		}
		reads := options.engineOptions(s.core.snapshot)
		defer C.terrace_readoptions_destroy(reads)
		it = s.db.newIterator(C.terrace_create_iterator(s.db.handle.db, reads))
		return nil
	})
	if err != nil {
		return failedIterator(err)
	}
	return it
}
