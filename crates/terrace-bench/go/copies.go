package main

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"time"
)

// BulkLoader is a Store with a fast way to load.
type BulkLoader interface {
	// BulkLoad adds all entries, which are in key order and have different keys. They are durable at the end.
	BulkLoad(entries *sortedEntries) error
}

// Checkpointer is a Store that can copy its database.
type Checkpointer interface {
	// Checkpoint copies the database to dir, which does not exist.
	Checkpoint(dir string) error
}

// sortedEntries are entries in memory, in key order.
type sortedEntries struct {
	bytes  []byte
	places []entryPlace
}

// entryPlace is the place of an entry: the start of its key, the end of its key, and the end of its value.
type entryPlace struct{ start, keyEnd, end int }

func (e *sortedEntries) key(at entryPlace) []byte   { return e.bytes[at.start:at.keyEnd] }
func (e *sortedEntries) value(at entryPlace) []byte { return e.bytes[at.keyEnd:at.end] }

func (e *sortedEntries) add(key, value []byte) {
	start := len(e.bytes)
	e.bytes = append(append(e.bytes, key...), value...)
	e.places = append(e.places, entryPlace{start, start + len(key), len(e.bytes)})
}

// sort leaves the last entry of each key.
func (e *sortedEntries) sort() {
	slices.SortFunc(e.places, func(a, b entryPlace) int {
		if order := bytes.Compare(e.key(a), e.key(b)); order != 0 {
			return order
		}
		return b.start - a.start
	})
	e.places = slices.CompactFunc(e.places, func(a, b entryPlace) bool { return bytes.Equal(e.key(a), e.key(b)) })
}

// bulkLoad loads the keys of all ops by one call. It returns true if the phase ends.
func (w *worker) bulkLoad(ops *Ops) (bool, error) {
	store, ok := w.store.(BulkLoader)
	if !ok {
		return false, errors.New("the engine has no bulk load")
	}
	entries := &sortedEntries{}
	var loaded uint64
	for op, ok := ops.next(); ok; op, ok = ops.next() {
		writeKey(op.n, w.key)
		writeValue(op.n, w.phase.ValueCompress, w.value)
		w.countPut(len(w.key) + len(w.value))
		entries.add(w.key, w.value)
		loaded++
	}
	entries.sort()
	if err := store.BulkLoad(entries); err != nil {
		return false, err
	}
	if loaded > 0 {
		w.tally.endSteps(w.shared, loaded)
	}
	return w.isOver(), nil
}

const checkpointPause = 500 * time.Millisecond // between two checkpoints, in which the writers change the database

// checkpoints copies the database once for each of ops. It returns true if the phase ends.
func (w *worker) checkpoints(ops *Ops) (bool, error) {
	store, ok := w.store.(Checkpointer)
	if !ok {
		return false, errors.New("the engine has no checkpoints")
	}
	for _, ok := ops.next(); ok; _, ok = ops.next() {
		time.Sleep(checkpointPause)
		w.tally.resumeClock(w.shared)
		dir := w.dir + ".checkpoint"
		if err := store.Checkpoint(dir); err != nil {
			return false, err
		}
		ended := w.ends(1)
		if err := os.RemoveAll(dir); err != nil {
			return false, err
		}
		w.tally.resumeClock(w.shared)
		if ended {
			return true, nil
		}
	}
	return false, nil
}
