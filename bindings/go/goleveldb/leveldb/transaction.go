package leveldb

import (
	"math"
	"sync"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
	terrace "terracedb.org/go"
)

// Transaction is a list of writes that take effect together at the commit. Its reads see its own writes.
// A database has one open transaction at a time, and other writers wait for its end.
type Transaction struct {
	db   *DB
	txn  *terrace.Txn
	once sync.Once // of the end
}

// OpenTransaction waits for writers and the end of another transaction, and begins one. The caller
// commits or discards it.
func (db *DB) OpenTransaction() (*Transaction, error) {
	db.writes.Lock()
	if db.refuses.Load() || db.readOnly {
		db.writes.Unlock()
		return nil, db.refusal()
	}
	// No other writer can interfere, so the commit checks nothing.
	txn, err := db.db.Begin(&terrace.TxnOptions{
		SnapshotIsolation: true,
		Memory:            math.MaxInt,
		Sync:              !db.options.GetNoSync(),
	})
	if err != nil {
		db.writes.Unlock()
		return nil, translate(err, ErrClosed)
	}
	transaction := &Transaction{db: db, txn: txn}
	db.mutex.Lock()
	db.transaction = transaction
	db.mutex.Unlock()
	// A Close that did not find the transaction has closed the database.
	if _, err := db.Has(nil, nil); err == ErrClosed {
		transaction.Discard()
		return nil, err
	}
	return transaction, nil
}

// end lets other writers continue, once.
func (tr *Transaction) end() {
	tr.once.Do(func() {
		tr.db.mutex.Lock()
		tr.db.transaction = nil
		tr.db.mutex.Unlock()
		tr.db.writes.Unlock()
	})
}

// Get returns the value of a key, or ErrNotFound.
func (tr *Transaction) Get(key []byte, _ *opt.ReadOptions) ([]byte, error) {
	value, err := tr.txn.GetUntracked(key)
	return value, translate(err, errTransactionDone)
}

// Has reports whether a key exists.
func (tr *Transaction) Has(key []byte, ro *opt.ReadOptions) (bool, error) {
	_, err := tr.Get(key, ro)
	if err == ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// NewIterator returns an iterator over the state of the transaction with its writes until now, as
// DB.NewIterator does. It outlives the transaction.
func (tr *Transaction) NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator {
	it := tr.txn.NewIterator(tr.db.iterOptions(slice, ro))
	if err := it.Error(); err != nil {
		return iterator.NewEmptyIterator(translate(err, errTransactionDone))
	}
	return &dbIterator{it: it}
}

// Put sets the value of a key.
func (tr *Transaction) Put(key, value []byte, _ *opt.WriteOptions) error {
	return translate(tr.txn.Put(key, value), errTransactionDone)
}

// Delete removes a key.
func (tr *Transaction) Delete(key []byte, _ *opt.WriteOptions) error {
	return translate(tr.txn.Delete(key), errTransactionDone)
}

// Write applies the operations of a batch.
func (tr *Transaction) Write(b *Batch, _ *opt.WriteOptions) error {
	if b == nil || b.Len() == 0 {
		return nil
	}
	var failed error
	keep := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	err := b.batch.Operations(
		func(key, value []byte) { keep(tr.txn.Put(key, value)) },
		func(key []byte) { keep(tr.txn.Delete(key)) })
	keep(err)
	return translate(failed, errTransactionDone)
}

// Commit makes the writes visible and durable, and ends the transaction. After an error nothing is
// written.
func (tr *Transaction) Commit() error {
	err := tr.txn.Commit()
	tr.end()
	return translate(err, errTransactionDone)
}

// Discard ends the transaction without a write. Has no effect after its end.
func (tr *Transaction) Discard() {
	tr.txn.Rollback()
	tr.end()
}
