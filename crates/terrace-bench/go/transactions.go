package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Transactor is a Store with transactions.
type Transactor interface {
	// Transact runs body in a transaction and commits it; again after each conflict.
	Transact(body func(Txn) error) error
}

// Txn is an open transaction. Its methods are those of Store.
type Txn interface {
	Get(key, into []byte) (value []byte, found bool, err error)
	Put(key, value []byte) error
	// Scan visits the entries from one key to another, which is excluded.
	Scan(from, to []byte, visit func(key, value []byte) error) error
}

// counts says whether each operation of the kind increments the count of a key.
func counts(kind string) bool { return kind == "txn-rmw" || kind == "txn-scan" }

// addCount adds count to the first word of value.
func addCount(value []byte, count uint64) {
	binary.LittleEndian.PutUint64(value, binary.LittleEndian.Uint64(value)+count)
}

// takeCount removes the count from value and returns it. It is not ok if the rest is not the value of n.
func takeCount(n uint64, compress float64, value []byte) (count uint64, ok bool) {
	if len(value) < 8 {
		return 0, false
	}
	words := SplitMix64{n ^ 0x5bd1e995}
	expected := words.number()
	count = binary.LittleEndian.Uint64(value) - expected
	binary.LittleEndian.PutUint64(value, expected)
	return count, matches(n, compress, value)
}

func (w *worker) transact(body func(Txn) error) error {
	store, ok := w.store.(Transactor)
	if !ok {
		return errors.New("the engine has no transactions")
	}
	return store.Transact(body)
}

func (w *worker) putInTransaction(n uint64) error {
	writeKey(n, w.key)
	writeValue(n, w.phase.ValueCompress, w.value)
	w.countPut(len(w.key) + len(w.value))
	return w.transact(func(txn Txn) error { return txn.Put(w.key, w.value) })
}

// increment visits entries keys from n on, if it is above 0, and increments the count of key n.
func (w *worker) increment(n, entries uint64) error {
	writeKey(n, w.key)
	limit := make([]byte, len(w.key))
	writeKey(n+entries, limit)
	found := false
	err := w.transact(func(txn Txn) (err error) {
		if entries > 0 {
			if err = w.scanInTransaction(txn, n, limit); err != nil {
				return err
			}
		}
		found, err = w.incrementIn(txn, n)
		return err
	})
	if found {
		w.tally.found++
		w.tally.checked++
	}
	w.countPut(len(w.key) + len(w.read))
	return err
}

func (w *worker) scanInTransaction(txn Txn, n uint64, limit []byte) error {
	return txn.Scan(w.key, limit, func(key, value []byte) error {
		at, ok := readKey(key)
		if !ok || at < n {
			return fmt.Errorf("wrong order: found %s, expected key %d", show(key), n)
		}
		n = at + 1
		w.read = append(w.read[:0], value...)
		if _, ok := takeCount(at, w.phase.ValueCompress, w.read); !ok {
			return fmt.Errorf("wrong value at key %d: found %s", at, show(value))
		}
		return nil
	})
}

func (w *worker) incrementIn(txn Txn, n uint64) (found bool, err error) {
	w.read, found, err = txn.Get(w.key, w.read[:0])
	if err != nil {
		return false, err
	}
	if !found {
		w.read = slices.Grow(w.read[:0], w.phase.ValueSize)[:w.phase.ValueSize]
		writeValue(n, w.phase.ValueCompress, w.read)
	}
	count, ok := takeCount(n, w.phase.ValueCompress, w.read)
	if !ok {
		return false, fmt.Errorf("wrong value at key %d: found %s", n, show(w.read))
	}
	addCount(w.read, count+1)
	return found, txn.Put(w.key, w.read)
}

// sumOfCounts returns the sum of the counts of all values.
func sumOfCounts(store Store, phase *Phase) (sum uint64, err error) {
	cursor, err := store.Cursor()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cursor.Close()) }()
	var read []byte
	for there := cursor.First(); there; there = cursor.Next() {
		value, err := cursor.Value()
		if err != nil {
			return 0, err
		}
		read = append(read[:0], value...)
		n, ok := readKey(cursor.Key())
		count, same := takeCount(n, phase.ValueCompress, read)
		if !ok || !same {
			return 0, fmt.Errorf("wrong value at %s: found %s", show(cursor.Key()), show(value))
		}
		sum += count
	}
	return sum, nil
}

// checkCounts checks that no increment was lost, if ops operations of phase were increments.
func (p *place) checkCounts(phase *Phase, before, ops uint64) error {
	if !counts(phase.Kind) {
		return nil
	}
	after, err := sumOfCounts(p.store, phase)
	if err == nil && after-before != ops {
		err = fmt.Errorf("LOST UPDATES: %d transactions have incremented a count, and the sum grew by %d", ops, after-before)
	}
	return err
}
