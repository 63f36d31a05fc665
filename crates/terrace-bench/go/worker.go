package main

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// shared is the state that the threads of a phase share.
type shared struct {
	phase *Phase
	clock clock
	done  atomic.Uint64 // finished operations, updated at intervals
	stop  atomic.Bool   // set by a thread that fails, so that the others stop
	rate  uint64        // maximum operations per second of each thread; 0 for no limit

	hasCounts bool   // whether an earlier phase has added counts to values
	dir       string // directory of the database
}

// tally holds the measurements of a thread.
type tally struct {
	latencies       Histogram
	windows         Windows
	ops             uint64
	bytes, bytesPut uint64
	found, checked  uint64
	ended           time.Duration // end of the last operation, since the start, without untimed
	untimed         time.Duration // time that the measurements exclude
	writers         *Histogram    // latencies of the concurrent writers
}

func (t *tally) add(other *tally) {
	t.latencies.add(&other.latencies)
	t.windows.add(other.windows)
	t.ops += other.ops
	t.bytes += other.bytes
	t.bytesPut += other.bytesPut
	t.found += other.found
	t.checked += other.checked
	t.ended = max(t.ended, other.ended)
}

const told = 64 // operations between two updates of shared.done

// end records that ops operations ended now; they began at the end of the operations before.
func (t *tally) end(shared *shared, ops uint64) {
	now := t.now(shared)
	t.record(shared, now, now-t.ended, ops)
}

// now is the measured time since the start. Counters of processors differ by some ticks, and the thread may have moved.
func (t *tally) now(shared *shared) time.Duration {
	return max(shared.clock.since()-t.untimed, t.ended)
}

// resumeClock excludes the time since the last operation from the measurements.
func (t *tally) resumeClock(shared *shared) {
	t.untimed = max(shared.clock.since()-t.ended, t.untimed)
}

// endSteps records that ops operations ended now, which ran one after the other. Each counts with their mean latency.
func (t *tally) endSteps(shared *shared, ops uint64) {
	now := t.now(shared)
	t.record(shared, now, (now-t.ended+time.Duration(ops/2))/time.Duration(ops), ops)
}

func (t *tally) record(shared *shared, now, latency time.Duration, ops uint64) {
	t.latencies.record(latency, ops)
	t.windows.record(now, ops)
	t.ended = now
	before := t.ops / told
	t.ops += ops
	if after := t.ops / told; after != before {
		shared.done.Add((after - before) * told)
	}
}

// worker is one thread of a phase: it executes operations, checks the values read, and measures the time of each.
type worker struct {
	*shared
	store Store
	key   []byte
	value []byte // value to put
	read  []byte // value that was read
	tally tally

	unsynced uint64 // writes since the last synced write, for sync_every
}

func newWorker(shared *shared, store Store) *worker {
	phase := shared.phase
	return &worker{
		shared: shared,
		store:  store,
		key:    make([]byte, phase.KeySize),
		value:  make([]byte, phase.ValueSize),
		tally:  tally{ended: shared.clock.since()},
	}
}

// run executes ops for the time of the phase: again from the first until its least time, and not beyond its limit.
// Afterwards, ops holds the operations that the limit left; none if each was executed.
func (w *worker) run(ops *Ops) error {
	first := *ops
	ended, err := w.pass(ops)
	// A pass without an operation would never reach the time.
	for before := uint64(0); err == nil && !ended && w.tally.ended < seconds(w.phase.DurationMin) && before < w.tally.ops; {
		before = w.tally.ops
		again := first
		ended, err = w.pass(&again)
	}
	if err != nil {
		w.stop.Store(true)
	}
	return err
}

func seconds(n uint64) time.Duration { return time.Duration(n) * time.Second }

// pass executes ops once. It returns true if the phase ends before the last of them.
func (w *worker) pass(ops *Ops) (bool, error) {
	switch {
	case w.phase.Kind == "scan":
		return w.walk(ops)
	case w.phase.Kind == "load":
		return w.bulkLoad(ops)
	case w.phase.Kind == "checkpoint":
		return w.checkpoints(ops)
	case w.phase.Batch > 1 && (w.phase.Kind == "put" || w.phase.Kind == "delete"):
		return w.batches(ops)
	}
	return w.each(ops)
}

func (w *worker) each(ops *Ops) (bool, error) {
	for op, ok := ops.next(); ok; op, ok = ops.next() {
		if err := w.act(op); err != nil {
			return false, err
		}
		if w.ends(1) {
			return true, nil
		}
		if w.rate > 0 && w.tally.ops%max(w.rate/portions, 1) == 0 {
			due := time.Duration(w.tally.ops * uint64(time.Second) / w.rate)
			time.Sleep(due - w.tally.ended)
		}
	}
	return false, nil
}

const portions = 100 // portions into which a throttled thread divides the operations of a second

// ends records the end of operations, and returns whether the phase ends.
func (w *worker) ends(ops uint64) bool {
	w.tally.end(w.shared, ops)
	return w.isOver()
}

// isOver returns whether the phase ends.
func (w *worker) isOver() bool {
	limit := seconds(w.phase.DurationLimit)
	return (limit > 0 && w.tally.ended >= limit) || w.stop.Load()
}

func (w *worker) act(op Op) error {
	switch op.do {
	case doPut:
		return w.put(op.n)
	case doDelete:
		writeKey(op.n, w.key)
		w.countPut(len(w.key))
		return w.store.Delete(w.key, w.sync())
	case doGet:
		return w.get(op.n)
	case doGetMissing:
		return w.getMissing(op.n)
	case doReadModifyWrite:
		if err := w.get(op.n); err != nil {
			return err
		}
		return w.put(op.n)
	case doSeek:
		return w.seek(op.n, op.steps)
	case doTxnPut:
		return w.putInTransaction(op.n)
	case doTxnReadModifyWrite:
		return w.increment(op.n, 0)
	case doTxnScan:
		return w.increment(op.n, op.steps)
	case doCompact:
		return w.store.Compact()
	}
	return fmt.Errorf("operation %d does not come one by one", op.do)
}

func (w *worker) put(n uint64) error {
	writeKey(n, w.key)
	writeValue(n, w.phase.ValueCompress, w.value)
	w.countPut(len(w.key) + len(w.value))
	return w.store.Put(w.key, w.value, w.sync())
}

// sync returns whether the next write is synced.
func (w *worker) sync() bool {
	w.unsynced++
	last := w.unsynced == w.phase.SyncEvery
	if last {
		w.unsynced = 0
	}
	return last || w.phase.Sync
}

func (w *worker) countPut(bytes int) {
	w.tally.bytes += uint64(bytes)
	w.tally.bytesPut += uint64(bytes)
}

func (w *worker) get(n uint64) error {
	writeKey(n, w.key)
	value, found, err := w.store.Get(w.key, w.read[:0])
	if err != nil || !found {
		return err
	}
	w.read = value
	w.tally.found++
	return w.check(n, value)
}

func (w *worker) getMissing(n uint64) error {
	writeKey(n, w.key)
	makeMissing(w.key)
	_, found, err := w.store.Get(w.key, w.read[:0])
	if found {
		return fmt.Errorf("wrong answer: found %s, which was never put", show(w.key))
	}
	return err
}

// check compares the value read at key n with the expected value.
func (w *worker) check(n uint64, value []byte) error {
	w.tally.bytes += uint64(len(w.key) + len(value))
	if !w.phase.Verify {
		return nil
	}
	w.tally.checked++
	if len(value) == w.phase.ValueSize && matches(n, w.phase.ValueCompress, value) {
		return nil
	}
	if w.hasCounts {
		if _, ok := takeCount(n, w.phase.ValueCompress, slices.Clone(value)); ok {
			return nil
		}
	}
	expected := make([]byte, w.phase.ValueSize)
	writeValue(n, w.phase.ValueCompress, expected)
	return fmt.Errorf("wrong value at key %d: found %s, expected %s", n, show(value), show(expected))
}

func (w *worker) seek(n, steps uint64) (err error) {
	writeKey(n, w.key)
	cursor, err := w.store.Cursor()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cursor.Close()) }()
	least := n
	there := cursor.Seek(w.key)
	for step := uint64(0); there; step++ {
		at, err := w.checkCursor(cursor)
		if err != nil {
			return err
		}
		if at < least {
			return fmt.Errorf("wrong order: found key %d, expected at least %d", at, least)
		}
		if step == 0 && at == n {
			w.tally.found++
		}
		least = at + 1
		there = step < steps && cursor.Next()
	}
	return nil
}

// checkCursor checks the entry at cursor, and returns its key number.
func (w *worker) checkCursor(cursor Cursor) (uint64, error) {
	value, err := cursor.Value()
	if err != nil {
		return 0, err
	}
	return w.checkEntry(cursor.Key(), value)
}

// checkEntry checks an entry, and returns its key number.
func (w *worker) checkEntry(key, value []byte) (uint64, error) {
	n, ok := readKey(key)
	if !ok || len(key) != w.phase.KeySize {
		return 0, fmt.Errorf("wrong key: found %s, which was never put", show(key))
	}
	return n, w.check(n, value)
}

// walk executes one scan, of which every step is an operation. A step copies its entry, and the clock stands still while
// the copies are checked, as in src/run/worker.rs.
func (w *worker) walk(ops *Ops) (ended bool, err error) {
	cursor, err := w.store.Cursor()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, cursor.Close()) }()
	start, step, backwards := cursor.First, cursor.Next, w.phase.Order == "reverse"
	if backwards {
		start, step = cursor.Last, cursor.Prev
	}
	var entries scannedEntries
	move, before, visited := start, uint64(0), false
	for {
		entries.clear()
		for entries.count() < stepsPerReading {
			if _, ok := ops.next(); !ok || !move() {
				break
			}
			value, err := cursor.Value()
			if err != nil {
				return false, err
			}
			entries.add(cursor.Key(), value)
			move = step
		}
		steps := entries.count()
		if steps > 0 {
			w.tally.endSteps(w.shared, uint64(steps))
		}
		for i := range steps {
			at, err := w.checkEntry(entries.at(i))
			if err != nil {
				return false, err
			}
			if visited && (at == before || backwards == (at > before)) {
				return false, fmt.Errorf("wrong order: key %d after %d", at, before)
			}
			before, visited = at, true
			w.tally.found++
		}
		w.tally.resumeClock(w.shared)
		if w.isOver() || steps < stepsPerReading {
			return w.isOver(), nil
		}
	}
}

const stepsPerReading = 64 // steps of a scan between two readings of the clock

// scannedEntries holds copies of the entries of the last steps of a scan.
type scannedEntries struct {
	bytes []byte
	ends  []entryEnds
}

// entryEnds holds the ends of the key and of the value of an entry in the copied bytes.
type entryEnds struct{ key, value int }

func (e *scannedEntries) clear()     { e.bytes, e.ends = e.bytes[:0], e.ends[:0] }
func (e *scannedEntries) count() int { return len(e.ends) }

func (e *scannedEntries) add(key, value []byte) {
	e.bytes = append(e.bytes, key...)
	keyEnd := len(e.bytes)
	e.bytes = append(e.bytes, value...)
	e.ends = append(e.ends, entryEnds{keyEnd, len(e.bytes)})
}

// at returns key and value of entry i.
func (e *scannedEntries) at(i int) (key, value []byte) {
	start := 0
	if i > 0 {
		start = e.ends[i-1].value
	}
	return e.bytes[start:e.ends[i].key], e.bytes[e.ends[i].key:e.ends[i].value]
}

// batches puts or deletes in atomic writes. The latency of each key is that of its write.
func (w *worker) batches(ops *Ops) (bool, error) {
	changes := make([]Change, 0, w.phase.Batch)
	for {
		changes = changes[:0]
		for uint64(len(changes)) < w.phase.Batch {
			op, ok := ops.next()
			if !ok {
				break
			}
			changes = append(changes, w.change(op))
		}
		if len(changes) == 0 {
			return false, nil
		}
		if err := w.store.Write(changes, w.sync()); err != nil {
			return false, err
		}
		if w.ends(uint64(len(changes))) {
			return true, nil
		}
	}
}

func (w *worker) change(op Op) Change {
	change := Change{key: make([]byte, w.phase.KeySize)}
	writeKey(op.n, change.key)
	if op.do == doPut {
		change.value = make([]byte, w.phase.ValueSize)
		writeValue(op.n, w.phase.ValueCompress, change.value)
	}
	w.countPut(len(change.key) + len(change.value))
	return change
}

// show returns the first bytes of a key or value, for messages.
func show(bytes []byte) string {
	if len(bytes) > 12 {
		return fmt.Sprintf("%q... (%d bytes)", bytes[:12], len(bytes))
	}
	return fmt.Sprintf("%q (%d bytes)", bytes, len(bytes))
}
