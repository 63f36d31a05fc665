package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Phase describes a workload. src/workload/phase_spec.rs defines its fields; all of them are present.
type Phase struct {
	Kind          string             `json:"kind"`
	Order         string             `json:"order"`
	Num           uint64             `json:"num"`
	Keyspace      uint64             `json:"keyspace"`
	Threads       uint64             `json:"threads"`
	Writers       uint64             `json:"writers"`
	WriteRate     uint64             `json:"write_rate"`
	KeySize       int                `json:"key_size"`
	ValueSize     int                `json:"value_size"`
	Batch         uint64             `json:"batch"`
	Sync          bool               `json:"sync"`
	SyncEvery     uint64             `json:"sync_every"`
	SeekNext      uint64             `json:"seek_next"`
	Mix           map[string]float64 `json:"mix"`
	Seed          uint64             `json:"seed"`
	ValueCompress float64            `json:"value_compress"`
	DurationMin   uint64             `json:"duration_min_s"`
	DurationLimit uint64             `json:"duration_limit_s"`
	Completes     bool               `json:"completes"`
	Verify        bool               `json:"verify"`
	Fresh         bool               `json:"fresh"`
	Settle        bool               `json:"settle"`
	CacheBytes    *uint64            `json:"cache_bytes"`
}

// check rejects phases that this program does not support.
func (p *Phase) check() error {
	switch {
	case !slices.Contains(kinds, p.Kind):
		return fmt.Errorf("no kind %q; there are %s", p.Kind, strings.Join(kinds, ", "))
	case !slices.Contains(orders, p.Order):
		return fmt.Errorf("no order %q; there are %s", p.Order, strings.Join(orders, ", "))
	case p.Threads == 0 || p.Keyspace == 0 || p.KeySize <= 0 || p.ValueSize < 0:
		return errors.New("a phase needs threads, a keyspace and a key_size")
	}
	return nil
}

var (
	kinds = []string{"put", "get", "delete", "scan", "seek", "open", "compact", "mixed", "txn-put", "txn-rmw", "txn-scan",
		"load", "checkpoint"}
	orders = []string{"seq", "reverse", "random", "hot", "missing", "zipf", "latest"}
)

// place is an engine, the directory of its database, and the database if it is open.
type place struct {
	open     open
	dir      string
	settings Settings
	store    Store
	cache    *uint64 // setting of the open database

	hasCounts bool // whether values may have counts
}

// run executes phase as src/run/phase.rs does: the clock runs while the threads execute their operations, and
// processor time, memory and writes are measured until background work has ended.
func (p *place) run(phase *Phase, shared *shared) (Result, error) {
	if err := p.prepare(phase); err != nil {
		return Result{}, err
	}
	if phase.Fresh {
		p.hasCounts = false
	}
	var sum uint64
	if counts(phase.Kind) && p.hasCounts {
		var err error
		if sum, err = sumOfCounts(p.store, phase); err != nil {
			return Result{}, err
		}
	}
	shared.hasCounts = p.hasCounts
	p.hasCounts = p.hasCounts || counts(phase.Kind)
	forgetPeakMemory()
	before := countersNow()
	work := p.work
	if phase.Kind == "open" {
		work = p.opens
	}
	// Some orders need a pass over the keys first, before the clock starts.
	ops := make([]*Ops, phase.Threads)
	for thread := range ops {
		ops[thread] = newOps(phase, uint64(thread))
	}
	tally, err := work(phase, ops, shared)
	if err != nil {
		return Result{}, err
	}
	var quiet *float64
	if phase.Settle {
		quiet = waitUntilQuiet()
	}
	result := p.result(tally, before, quiet)
	if err := p.checkCounts(phase, sum, result.Ops); err != nil {
		return Result{}, err
	}
	if phase.Completes {
		err = p.complete(phase, ops)
		result.SpaceBytes = space(p.dir)
	}
	return result, err
}

// complete executes the operations that the time limit of phase left, without measuring them.
func (p *place) complete(phase *Phase, rest []*Ops) error {
	untimed := phase.withoutTime()
	_, err := p.work(&untimed, rest, &shared{phase: &untimed})
	if phase.Settle {
		waitUntilQuiet()
	}
	return err
}

// withoutTime is the same phase, with each operation once and without a time limit.
func (p *Phase) withoutTime() Phase {
	phase := *p
	phase.DurationMin, phase.DurationLimit, phase.Completes = 0, 0, false
	return phase
}

func (p *place) prepare(phase *Phase) error {
	if phase.Fresh {
		if err := p.clear(); err != nil {
			return err
		}
	}
	cache := p.settings.CacheBytes
	if phase.CacheBytes != nil {
		cache = phase.CacheBytes
	}
	if p.store != nil && same(cache, p.cache) {
		return nil
	}
	p.cache = cache
	return p.reopen()
}

func same(a, b *uint64) bool { return a == b || a != nil && b != nil && *a == *b }

func (p *place) clear() error {
	return errors.Join(p.close(), os.RemoveAll(p.dir), os.MkdirAll(p.dir, 0o777))
}

func (p *place) close() error {
	if p.store == nil {
		return nil
	}
	store := p.store
	p.store = nil
	return store.Close()
}

func (p *place) reopen() error {
	if err := p.close(); err != nil {
		return err
	}
	settings := p.settings
	settings.CacheBytes = p.cache
	store, err := p.open(p.dir, settings)
	if err == nil {
		p.store = store
	}
	return err
}

func (p *place) work(phase *Phase, ops []*Ops, shared *shared) (*tally, error) {
	shared.clock, shared.dir = startClock(), p.dir
	beside := besides(shared)
	begin := make(chan struct{})
	threads := p.start(shared, ops, begin)
	puts := make([]*Ops, phase.Writers)
	for writer := range puts {
		puts[writer] = newOps(beside.phase, uint64(writer))
	}
	writers := p.start(beside, puts, begin)
	close(begin)
	sum, err := threads.join()
	beside.stop.Store(true)
	written, besideErr := writers.join()
	sum.bytesPut += written.bytesPut
	if phase.Writers > 0 {
		sum.writers = &written.latencies
	}
	return sum, errors.Join(err, besideErr, shared.clock.agrees())
}

// besides returns the state of the concurrent writers, which write until the phase ends.
func besides(threads *shared) *shared {
	phase := threads.phase.withoutTime()
	phase.Kind, phase.Order, phase.Num, phase.Seed = "put", "random", math.MaxUint64, phase.Seed+phase.Threads
	phase.Threads, phase.Batch = phase.Writers, 1
	return &shared{phase: &phase, clock: threads.clock, rate: phase.WriteRate}
}

// crew is a group of threads that execute operations of the same phase.
type crew struct {
	workers  []*worker
	failures []error
	running  sync.WaitGroup
}

// start creates a worker for each of ops; the workers begin when begin is closed.
func (p *place) start(shared *shared, ops []*Ops, begin <-chan struct{}) *crew {
	crew := &crew{workers: make([]*worker, len(ops)), failures: make([]error, len(ops))}
	for thread := range ops {
		crew.running.Add(1)
		go func() {
			defer crew.running.Done()
			<-begin
			crew.workers[thread] = newWorker(shared, p.store)
			crew.failures[thread] = crew.workers[thread].run(ops[thread])
		}()
	}
	return crew
}

// join waits for all workers and adds up their measurements.
func (c *crew) join() (*tally, error) {
	c.running.Wait()
	sum := &tally{}
	for _, worker := range c.workers {
		sum.add(&worker.tally)
	}
	return sum, errors.Join(distinct(c.failures)...)
}

// distinct returns the errors, and only the first of several with the same text.
func distinct(failures []error) []error {
	seen := map[string]bool{}
	var rest []error
	for _, failure := range failures {
		if failure != nil && !seen[failure.Error()] {
			seen[failure.Error()] = true
			rest = append(rest, failure)
		}
	}
	return rest
}

// opens closes and reopens the database repeatedly, in one thread.
func (p *place) opens(phase *Phase, _ []*Ops, shared *shared) (*tally, error) {
	shared.clock = startClock()
	tally := &tally{}
	for tally.ops < phase.Num || tally.ended < seconds(phase.DurationMin) {
		if err := p.reopen(); err != nil {
			return nil, err
		}
		tally.end(shared, 1)
		if limit := seconds(phase.DurationLimit); limit > 0 && tally.ended >= limit {
			break
		}
	}
	return tally, shared.clock.agrees()
}

// Result is the result of one phase; src/report/model.rs defines its fields.
type Result struct {
	Row                int      `json:"row"`
	Engine             string   `json:"engine"`
	Ops                uint64   `json:"ops"`
	Seconds            float64  `json:"seconds"`
	OpsPerSecond       float64  `json:"ops_per_second"`
	Bytes              uint64   `json:"bytes"`
	LatencyNs          Latency  `json:"latency_ns"`
	WritersLatencyNs   *Latency `json:"writers_latency_ns"`
	Windows100ms       Windows  `json:"windows_100ms"`
	Windows1s          Windows  `json:"windows_1s"`
	Slowest1sToMean    *float64 `json:"slowest_1s_to_mean"`
	Slowest100msToMean *float64 `json:"slowest_100ms_to_mean"`
	CPUSeconds         float64  `json:"cpu_seconds"`
	PeakRSSBytes       *uint64  `json:"peak_rss_bytes"`
	DeviceBytesWritten *uint64  `json:"device_bytes_written"`
	WriteAmplification *float64 `json:"write_amplification"`
	SpaceBytes         *uint64  `json:"space_bytes"`
	QuietSeconds       *float64 `json:"quiet_seconds"`
	Found              uint64   `json:"found"`
	Checked            uint64   `json:"checked"`
}

func (p *place) result(tally *tally, before counters, quiet *float64) Result {
	after := countersNow()
	seconds := tally.ended.Seconds()
	device := after.deviceBytesSince(before)
	windows := append(Windows{}, tally.windows...) // never null
	return Result{
		Ops:                tally.ops,
		Seconds:            seconds,
		OpsPerSecond:       float64(tally.ops) / max(seconds, 1e-9),
		Bytes:              tally.bytes,
		LatencyNs:          tally.latencies.summary(),
		Windows100ms:       windows,
		Windows1s:          windows.seconds(),
		Slowest1sToMean:    windows.seconds().slowest(time.Second, tally.ended),
		Slowest100msToMean: windows.slowest(width, tally.ended),
		CPUSeconds:         after.cpuSince(before),
		PeakRSSBytes:       peakMemory(),
		DeviceBytesWritten: device,
		WriteAmplification: amplification(device, tally.bytesPut),
		SpaceBytes:         space(p.dir),
		QuietSeconds:       quiet,
		WritersLatencyNs:   writersLatency(tally),
		Found:              tally.found,
		Checked:            tally.checked,
	}
}

func writersLatency(tally *tally) *Latency {
	if tally.writers == nil {
		return nil
	}
	latency := tally.writers.summary()
	return &latency
}

func amplification(device *uint64, put uint64) *float64 {
	if device == nil || put == 0 {
		return nil
	}
	ratio := float64(*device) / float64(put)
	return &ratio
}
