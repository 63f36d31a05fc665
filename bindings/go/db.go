package terrace

// #include "terrace/terrace.h"
import "C"

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// DB is an open database.
type DB struct {
	*handle
}

// handle is the part of a DB that its iterators, snapshots and transactions share.
type handle struct {
	gate      gate
	children  children
	db        *C.leveldb_t
	options   *engineOptions
	reads     *C.leveldb_readoptions_t
	writes    *C.leveldb_writeoptions_t
	syncs     *C.leveldb_writeoptions_t
	valueSize atomic.Int64 // length of the last long value, for the buffer of the next read
}

// WriteOptions are the options of a write; nil means the defaults.
type WriteOptions struct {
	// Sync makes the write durable before the call returns. Without it, the write survives a crash
	// of the process, and a power cut may lose it.
	Sync bool
}

// Sync are the options of a durable write.
var Sync = &WriteOptions{Sync: true}

// Open opens the database in the directory path. nil means the default options.
func Open(path string, options *Options) (*DB, error) {
	open := func(e *engineOptions, cause **C.char) *C.leveldb_t {
		if options != nil && options.ReadOnly {
			return C.terrace_open_read_only(e.options, e.name, cause)
		}
		return C.terrace_open(e.options, e.name, cause)
	}
	return openWith(path, options, open)
}

// OpenFollower opens a database for reads beside its writer, which may be another process and may use
// LevelDB or goleveldb. Takes no lock and writes nothing. A read that begins more than maxAge after
// the last catch-up catches up first.
func OpenFollower(path string, maxAge time.Duration, options *Options) (*DB, error) {
	if maxAge < 0 {
		return nil, invalid("the maximum age %v is negative", maxAge)
	}
	open := func(e *engineOptions, cause **C.char) *C.leveldb_t {
		return C.terrace_open_follower(e.options, e.name, C.uint64_t(maxAge.Microseconds()), cause)
	}
	return openWith(path, options, open)
}

func openWith(path string, options *Options, open func(*engineOptions, **C.char) *C.leveldb_t) (*DB, error) {
	e, err := newEngineOptions(path, options)
	if err != nil {
		return nil, err
	}
	var cause *C.char
	opened := open(e, &cause)
	if opened == nil {
		e.free()
		return nil, takeError(cause)
	}
	h := &handle{gate: newGate(), db: opened, options: e, reads: C.terrace_readoptions_create()}
	h.writes, h.syncs = C.terrace_writeoptions_create(), C.terrace_writeoptions_create()
	C.terrace_writeoptions_set_sync(h.syncs, 1)
	db := &DB{h}
	runtime.AddCleanup(db, func(h *handle) { _ = h.close() }, h)
	return db, nil
}

// Close waits for the calls in progress, ends iterators, snapshots and transactions, and closes the
// database. Returns an error if earlier writes may not be durable; the database is closed even so. A
// second call returns ErrClosed.
func (db *DB) Close() error {
	defer runtime.KeepAlive(db)
	return db.close()
}

func (h *handle) close() error {
	if !h.gate.shut() {
		return ErrClosed
	}
	h.children.endAll()
	var cause *C.char
	C.terrace_close(h.db, &cause)
	h.db = nil
	C.terrace_readoptions_destroy(h.reads)
	C.terrace_writeoptions_destroy(h.writes)
	C.terrace_writeoptions_destroy(h.syncs)
	h.options.free()
	// Programs delete the directory of an open database, and goleveldb's Close reports nothing then.
	if err := takeError(cause); !errors.Is(err, NotFound) {
		return err
	}
	return nil
}

// call runs work while the database is open.
func (db *DB) call(work func()) error {
	if !db.gate.enter() {
		return ErrClosed
	}
	defer runtime.KeepAlive(db)
	defer db.gate.leave()
	work()
	return nil
}

// callWithError runs work, which stores an error of the engine, while the database is open.
func (db *DB) callWithError(work func(cause **C.char)) error {
	var cause *C.char
	if err := db.call(func() { work(&cause) }); err != nil {
		return err
	}
	return takeError(cause)
}

// Put sets the value of a key.
func (db *DB) Put(key, value []byte, options *WriteOptions) error {
	if err := checkLengths(key, value); err != nil {
		return err
	}
	if !db.gate.enter() {
		return ErrClosed
	}
	var cause *C.char
	C.terrace_put(db.db, db.writeOptions(options), pointer(key), length(key), pointer(value), length(value), &cause)
	db.gate.leave()
	runtime.KeepAlive(db)
	return takeError(cause)
}

// Delete removes a key. A missing key is not an error.
func (db *DB) Delete(key []byte, options *WriteOptions) error {
	if err := checkLengths(key, nil); err != nil {
		return err
	}
	if !db.gate.enter() {
		return ErrClosed
	}
	var cause *C.char
	C.terrace_delete(db.db, db.writeOptions(options), pointer(key), length(key), &cause)
	db.gate.leave()
	runtime.KeepAlive(db)
	return takeError(cause)
}

// Write applies every operation of a batch, or none.
func (db *DB) Write(batch *Batch, options *WriteOptions) error {
	encoded, err := batch.encoded()
	if err != nil {
		return err
	}
	if !db.gate.enter() {
		return ErrClosed
	}
	var cause *C.char
	C.terrace_write_bytes(db.db, db.writeOptions(options), pointer(encoded), length(encoded), &cause)
	db.gate.leave()
	runtime.KeepAlive(db)
	return takeError(cause)
}

func (h *handle) writeOptions(options *WriteOptions) *C.leveldb_writeoptions_t {
	if options != nil && options.Sync {
		return h.syncs
	}
	return h.writes
}

// Get returns the value of a key, or ErrNotFound.
func (db *DB) Get(key []byte) ([]byte, error) {
	if !db.gate.enter() {
		return nil, ErrClosed
	}
	value, err := db.get(db.reads, key)
	db.gate.leave()
	runtime.KeepAlive(db)
	return value, err
}

// Has reports whether a key exists.
func (db *DB) Has(key []byte) (bool, error) {
	if !db.gate.enter() {
		return false, ErrClosed
	}
	found, err := db.has(db.reads, key)
	db.gate.leave()
	runtime.KeepAlive(db)
	return found, err
}

// shortValue is the maximum length in bytes of a value that is read into memory of the stack.
const shortValue = 512

// get reads a value: first into a buffer that is probably long enough, and otherwise once more.
func (h *handle) get(reads *C.leveldb_readoptions_t, key []byte) ([]byte, error) {
	if err := checkLengths(key, nil); err != nil {
		return nil, err
	}
	if expected := h.valueSize.Load(); expected > shortValue {
		return h.getInto(reads, key, make([]byte, expected))
	}
	var short [shortValue]byte
	n, found, err := h.copyValue(reads, key, short[:])
	if err != nil || !found {
		return nil, notFound(err)
	}
	if n <= shortValue {
		value := make([]byte, n)
		copy(value, short[:])
		return value, nil
	}
	h.valueSize.Store(int64(n))
	return h.getInto(reads, key, make([]byte, n))
}

// getInto reads a value into buffer, or into a longer one.
func (h *handle) getInto(reads *C.leveldb_readoptions_t, key, buffer []byte) ([]byte, error) {
	for {
		n, found, err := h.copyValue(reads, key, buffer)
		if err != nil || !found {
			return nil, notFound(err)
		}
		if n > len(buffer) { // Another writer may change the length meanwhile.
			h.valueSize.Store(int64(n))
			buffer = make([]byte, n)
			continue
		}
		if n < len(buffer)/2 {
			h.valueSize.Store(int64(n))
			return append(make([]byte, 0, n), buffer[:n]...), nil
		}
		return buffer[:n:n], nil
	}
}

func (h *handle) has(reads *C.leveldb_readoptions_t, key []byte) (bool, error) {
	if err := checkLengths(key, nil); err != nil {
		return false, err
	}
	_, found, err := h.copyValue(reads, key, nil)
	return found, err
}

// copyValue copies a value that fits into buffer, and returns its length.
func (h *handle) copyValue(reads *C.leveldb_readoptions_t, key, buffer []byte) (int, bool, error) {
	var n C.size_t
	var cause *C.char
	found := C.terrace_get_into(h.db, reads, pointer(key), length(key), pointer(buffer), length(buffer), &n, &cause)
	if cause != nil {
		return 0, false, takeError(cause)
	}
	return int(n), found == 1, nil
}

func notFound(err error) error {
	if err == nil {
		return ErrNotFound
	}
	return err
}

// GetMany returns the values of keys in one state of the database; nil for a missing key.
func (db *DB) GetMany(keys [][]byte) ([][]byte, error) {
	snapshot, err := db.Snapshot()
	if err != nil {
		return nil, err
	}
	defer snapshot.Release()
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := snapshot.Get(key)
		if err != nil && err != ErrNotFound {
			return nil, err
		}
		values[i] = value
	}
	return values, nil
}

// DeleteRange removes all keys from start, included, to limit, excluded; nil means no bound. It is
// durable on return, and costs little for whole tables. After an error or a crash some of the keys may
// be removed.
func (db *DB) DeleteRange(start, limit []byte) error {
	if err := checkLengths(start, limit); err != nil {
		return err
	}
	return db.callWithError(func(cause **C.char) {
		C.terrace_delete_range(db.db, bound(start), length(start), bound(limit), length(limit), cause)
	})
}

// CompactRange compacts all tables with keys in a range; nil means no bound.
func (db *DB) CompactRange(start, limit []byte) error {
	if err := checkLengths(start, limit); err != nil {
		return err
	}
	return db.callWithError(func(cause **C.char) {
		C.terrace_compact_range(db.db, bound(start), length(start), bound(limit), length(limit), cause)
	})
}

// Flush writes the memtable to a table, and returns when the table is durable.
func (db *DB) Flush() error {
	return db.callWithError(func(cause **C.char) { C.terrace_flush(db.db, cause) })
}

// Sync makes all writes that have returned durable.
func (db *DB) Sync() error {
	return db.callWithError(func(cause **C.char) { C.terrace_sync(db.db, cause) })
}

// CatchUp makes a follower read everything that its writer has stored. Returns the sequence number of
// the last write.
func (db *DB) CatchUp() (sequence uint64, err error) {
	err = db.callWithError(func(cause **C.char) { sequence = uint64(C.terrace_catch_up(db.db, cause)) })
	return sequence, err
}

// Checkpoint creates a copy of the database in the new directory path: a LevelDB directory with the
// state of one moment. Returns the sequence number of its last write.
func (db *DB) Checkpoint(path string) (sequence uint64, err error) {
	e, err := newEngineOptions(path, nil)
	if err != nil {
		return 0, err
	}
	defer e.free()
	err = db.callWithError(func(cause **C.char) { sequence = uint64(C.terrace_checkpoint(db.db, e.name, cause)) })
	return sequence, err
}

// ApproximateSize estimates the number of file bytes of the keys from start to limit. Memtables do not
// count.
func (db *DB) ApproximateSize(start, limit []byte) (size uint64, err error) {
	if err := checkLengths(start, limit); err != nil {
		return 0, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	first, last := pointer(start), pointer(limit)
	if first != nil {
		pinner.Pin(unsafe.SliceData(start))
	}
	if last != nil {
		pinner.Pin(unsafe.SliceData(limit))
	}
	firstLen, lastLen, result := length(start), length(limit), C.uint64_t(0)
	err = db.call(func() {
		C.terrace_approximate_sizes(db.db, 1, &first, &firstLen, &last, &lastLen, &result)
	})
	return uint64(result), err
}
