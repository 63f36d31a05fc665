package leveldb

import (
	"sync"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
	terrace "terracedb.org/go"
)

// Reader is implemented by DB, Snapshot and Transaction.
type Reader interface {
	Get(key []byte, ro *opt.ReadOptions) (value []byte, err error)
	NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator
}

// DB is an open database. Every method may be called from several goroutines.
type DB struct {
	db          *terrace.DB
	storage     storage.Storage // keeps the lock of its directory
	ownsStorage bool            // closes it
	options     *opt.Options
	readOnly    bool        // opened read-only
	refuses     atomic.Bool // refuses writes since SetReadOnly

	// Writers hold it for reading, and an open transaction for writing: writes wait for its end.
	writes      sync.RWMutex
	mutex       sync.Mutex // protects transaction
	transaction *Transaction
}

// Close waits for the calls in progress, ends iterators, snapshots and the transaction, and closes the
// database. A second call returns ErrClosed.
func (db *DB) Close() error {
	err := db.db.Close()
	db.mutex.Lock()
	transaction := db.transaction
	db.mutex.Unlock()
	if transaction != nil {
		transaction.Discard() // Writers that wait for it continue, and find the database closed.
	}
	if db.ownsStorage {
		db.storage.Close()
	}
	return translate(err, ErrClosed)
}

// beginWrite waits for the end of an open transaction, and prevents a new one until endWrite.
func (db *DB) beginWrite() error {
	db.writes.RLock()
	if db.refuses.Load() {
		db.writes.RUnlock()
		return db.refusal()
	}
	return nil
}

// refusal returns the error of a write to a database that refuses writes.
func (db *DB) refusal() error {
	if err := db.closedError(); err != nil {
		return err
	}
	return ErrReadOnly
}

func (db *DB) endWrite(err error) error {
	db.writes.RUnlock()
	return translate(err, ErrClosed)
}

func (db *DB) writeOptions(wo *opt.WriteOptions) *terrace.WriteOptions {
	if wo.GetSync() && !db.options.GetNoSync() {
		return terrace.Sync
	}
	return nil
}

// Put sets the value of a key. Key and value are copied.
func (db *DB) Put(key, value []byte, wo *opt.WriteOptions) error {
	if err := db.beginWrite(); err != nil {
		return err
	}
	return db.endWrite(db.db.Put(key, value, db.writeOptions(wo)))
}

// Delete removes a key. A missing key is not an error.
func (db *DB) Delete(key []byte, wo *opt.WriteOptions) error {
	if err := db.beginWrite(); err != nil {
		return err
	}
	return db.endWrite(db.db.Delete(key, db.writeOptions(wo)))
}

// Write applies every operation of a batch, or none. A nil batch has no operations.
func (db *DB) Write(batch *Batch, wo *opt.WriteOptions) error {
	if batch == nil || batch.Len() == 0 {
		return db.closedError()
	}
	if err := db.beginWrite(); err != nil {
		return err
	}
	return db.endWrite(db.db.Write(&batch.batch, db.writeOptions(wo)))
}

// Get returns the value of a key, or ErrNotFound. The value is a copy.
func (db *DB) Get(key []byte, _ *opt.ReadOptions) ([]byte, error) {
	value, err := db.db.Get(key)
	return value, translate(err, ErrClosed)
}

// Has reports whether a key exists.
func (db *DB) Has(key []byte, _ *opt.ReadOptions) (bool, error) {
	found, err := db.db.Has(key)
	return found, translate(err, ErrClosed)
}

// NewIterator returns an iterator over the current state; over the keys of slice, unless it is nil. The
// caller releases it. An error is that of the iterator.
func (db *DB) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	return &dbIterator{it: db.db.NewIterator(db.iterOptions(slice, ro))}
}

func (db *DB) iterOptions(slice *util.Range, ro *opt.ReadOptions) *terrace.IterOptions {
	options := &terrace.IterOptions{
		DontFillCache:   ro.GetDontFillCache(),
		VerifyChecksums: ro.GetStrict(opt.StrictReader | opt.StrictBlockChecksum),
	}
	if slice != nil {
		options.Start, options.Limit = slice.Start, slice.Limit
	}
	return options
}

// CompactRange compacts all tables with keys in a range. A nil bound is none.
func (db *DB) CompactRange(r util.Range) error {
	if db.refuses.Load() {
		return db.refusal()
	}
	return translate(db.db.CompactRange(r.Start, r.Limit), ErrClosed)
}

// SetReadOnly makes all later writes fail with ErrReadOnly. Waits for the end of an open transaction. If
// the database refuses writes already, it returns ErrReadOnly.
func (db *DB) SetReadOnly() error {
	db.writes.Lock()
	defer db.writes.Unlock()
	if err := db.closedError(); err != nil {
		return err
	}
	if db.readOnly || db.refuses.Swap(true) {
		return ErrReadOnly
	}
	return nil
}

// closedError returns ErrClosed after Close.
func (db *DB) closedError() error {
	if _, err := db.Has(nil, nil); err == ErrClosed {
		return err
	}
	return nil
}

// Sizes are sizes in bytes.
type Sizes []int64

// Sum returns their sum.
func (sizes Sizes) Sum() (sum int64) {
	for _, size := range sizes {
		sum += size
	}
	return sum
}

// SizeOf estimates the number of file bytes of each range. Entries in memory do not count.
func (db *DB) SizeOf(ranges []util.Range) (Sizes, error) {
	if err := db.closedError(); err != nil {
		return nil, err
	}
	sizes := make(Sizes, 0, len(ranges))
	for _, r := range ranges {
		size, err := db.db.ApproximateSize(r.Start, r.Limit)
		if err != nil {
			return nil, translate(err, ErrClosed)
		}
		sizes = append(sizes, int64(size))
	}
	return sizes, nil
}
