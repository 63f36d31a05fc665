package terrace

// #include "terrace/terrace.h"
import "C"

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// Txn is a transaction. It reads one state of the database with its own writes, and its writes take
// effect together at the commit. Commit returns an error of the kind Busy if another writer has
// changed anything that the transaction read; the program then repeats the whole transaction, as
// DB.Update does.
type Txn struct {
	core *txnCore
	db   *DB
}

// TxnOptions are the options of a transaction; nil means a serializable transaction without locks.
type TxnOptions struct {
	// SnapshotIsolation makes the commit check only the keys that the transaction writes, or reads
	// for update.
	SnapshotIsolation bool
	// Locking locks each key at its first read or write. Other locking transactions wait, at most for
	// LockTimeout; 0 means one second.
	Locking     bool
	LockTimeout time.Duration
	// Memory is the maximum size of the reads and writes in bytes; 0 means 64 MiB.
	Memory int
	// Sync makes the commit durable before it returns.
	Sync bool
}

// txnCore is the engine's transaction, which ends with its commit, its rollback or its database.
type txnCore struct {
	childLinks
	mutex sync.Mutex
	txn   *C.terrace_txn_t
	done  bool // ended by Commit or Rollback
}

func (c *txnCore) kind() childKind { return txnChild }

func (c *txnCore) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.destroy()
}

func (c *txnCore) destroy() {
	C.terrace_txn_destroy(c.txn)
	c.txn = nil
}

// Begin begins a transaction. Its first read determines the state that it reads.
func (db *DB) Begin(options *TxnOptions) (*Txn, error) {
	core := &txnCore{}
	err := db.callWithError(func(cause **C.char) {
		engine := options.engineOptions()
		defer C.terrace_txn_options_destroy(engine)
		core.txn = C.terrace_begin(db.db, engine, cause)
	})
	if err != nil {
		return nil, err
	}
	if !db.children.add(core) {
		core.end()
		return nil, ErrClosed
	}
	h, txn := db.handle, &Txn{core, db}
	runtime.AddCleanup(txn, func(core *txnCore) {
		core.end()
		h.children.remove(core)
	}, core)
	return txn, nil
}

func (o *TxnOptions) engineOptions() *C.terrace_txn_options_t {
	engine := C.terrace_txn_options_create()
	if o == nil {
		return engine
	}
	if o.SnapshotIsolation {
		C.terrace_txn_options_set_isolation(engine, C.terrace_snapshot_isolation)
	}
	C.terrace_txn_options_set_locking(engine, boolean(o.Locking))
	if o.LockTimeout > 0 {
		C.terrace_txn_options_set_lock_timeout_ms(engine, C.uint64_t(max(o.LockTimeout.Milliseconds(), 1)))
	}
	if o.Memory > 0 {
		C.terrace_txn_options_set_memory(engine, C.size_t(o.Memory))
	}
	C.terrace_txn_options_set_sync(engine, boolean(o.Sync))
	return engine
}

// Update runs work in a transaction and commits it. Runs work again in a new transaction after an error
// of the kind Busy. An error of work rolls back, and is the result.
func (db *DB) Update(options *TxnOptions, work func(*Txn) error) error {
	for {
		txn, err := db.Begin(options)
		if err != nil {
			return err
		}
		if err = work(txn); err == nil {
			err = txn.Commit()
		}
		txn.Rollback()
		if !errors.Is(err, Busy) {
			return err
		}
	}
}

// call runs work with the engine's transaction.
func (t *Txn) call(work func(txn *C.terrace_txn_t, cause **C.char)) error {
	defer runtime.KeepAlive(t)
	t.core.mutex.Lock()
	defer t.core.mutex.Unlock()
	if t.core.done {
		return ErrReleased
	}
	if t.core.txn == nil {
		return ErrClosed
	}
	var cause *C.char
	work(t.core.txn, &cause)
	return takeError(cause)
}

// Get returns the value of a key, or ErrNotFound. The commit fails if another writer writes the key.
func (t *Txn) Get(key []byte) ([]byte, error) {
	return t.get(key, func(txn *C.terrace_txn_t, n *C.size_t, cause **C.char) *C.char {
		return C.terrace_txn_get(txn, pointer(key), length(key), n, cause)
	})
}

// GetForUpdate is Get, with a check at each isolation level. With locking, it locks the key exclusively.
func (t *Txn) GetForUpdate(key []byte) ([]byte, error) {
	return t.get(key, func(txn *C.terrace_txn_t, n *C.size_t, cause **C.char) *C.char {
		return C.terrace_txn_get_for_update(txn, pointer(key), length(key), n, cause)
	})
}

// GetUntracked is Get, without a check by the commit.
func (t *Txn) GetUntracked(key []byte) ([]byte, error) {
	return t.get(key, func(txn *C.terrace_txn_t, n *C.size_t, cause **C.char) *C.char {
		return C.terrace_txn_get_untracked(txn, pointer(key), length(key), n, cause)
	})
}

func (t *Txn) get(key []byte, read func(*C.terrace_txn_t, *C.size_t, **C.char) *C.char) (value []byte, err error) {
	if err := checkLengths(key, nil); err != nil {
		return nil, err
	}
	found := false
	err = t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		var n C.size_t
		if bytes := read(txn, &n, cause); bytes != nil {
			value, found = takeBytes(bytes, n), true
		}
	})
	if err == nil && !found {
		err = ErrNotFound
	}
	return value, err
}

// Put sets the value of a key, for other readers at the commit.
func (t *Txn) Put(key, value []byte) error {
	if err := checkLengths(key, value); err != nil {
		return err
	}
	return t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		C.terrace_txn_put(txn, pointer(key), length(key), pointer(value), length(value), cause)
	})
}

// Delete removes a key, for other readers at the commit.
func (t *Txn) Delete(key []byte) error {
	if err := checkLengths(key, nil); err != nil {
		return err
	}
	return t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		C.terrace_txn_delete(txn, pointer(key), length(key), cause)
	})
}

// NewIterator creates an iterator over the transaction's state with its writes until now. It outlives
// the transaction. The commit checks the range that the iterator reads.
func (t *Txn) NewIterator(options *IterOptions) *Iterator {
	if err := options.check(); err != nil {
		return failedIterator(err)
	}
	var created *C.leveldb_iterator_t
	err := t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		reads := options.engineOptions(nil)
		defer C.terrace_readoptions_destroy(reads)
		created = C.terrace_txn_iterator(txn, reads, cause)
	})
	if err != nil {
		return failedIterator(err)
	}
	return t.db.newIterator(created)
}

// Savepoint marks the current moment for RollbackTo.
func (t *Txn) Savepoint() (savepoint uint64, err error) {
	err = t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		savepoint = uint64(C.terrace_txn_savepoint(txn, cause))
	})
	return savepoint, err
}

// RollbackTo removes the writes since a savepoint, which stays valid.
func (t *Txn) RollbackTo(savepoint uint64) error {
	return t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		C.terrace_txn_rollback_to(txn, C.uint64_t(savepoint), cause)
	})
}

// Commit writes everything, or nothing if it returns an error. Ends the transaction in either case.
func (t *Txn) Commit() error {
	err := t.call(func(txn *C.terrace_txn_t, cause **C.char) {
		if C.terrace_txn_commit(txn, nil, cause) == 0 && *cause == nil {
			var message *C.char
			C.terrace_txn_error(txn, &message)
			*cause = C.CString("Busy: " + C.GoString(message))
		}
		t.core.done = true
		t.core.destroy()
	})
	t.db.children.remove(t.core)
	return err
}

// Rollback ends the transaction without a write. Has no effect after its end.
func (t *Txn) Rollback() {
	// The only possible error is that of a transaction that has ended.
	_ = t.call(func(txn *C.terrace_txn_t, _ **C.char) {
		t.core.done = true
		t.core.destroy()
	})
	t.db.children.remove(t.core)
}
