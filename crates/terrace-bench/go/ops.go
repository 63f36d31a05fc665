package main

// Op is one operation.
type Op struct {
	do    do
	n     uint64 // the number of its key
	steps uint64 // of a seek: how far on
}

type do byte

const (
	doPut do = iota
	doDelete
	doGet
	doGetMissing
	doStep
	doSeek
	doReadModifyWrite
	doTxnPut
	doTxnReadModifyWrite
	doTxnScan
	doOpen
	doCompact
	doCheckpoint
)

// mixNames are the names in a mix, in the order in which shares are added up.
var mixNames = [...]string{"get", "put", "insert", "scan", "rmw"}

// Ops are the operations of one thread, one after the other.
type Ops struct {
	phase    *Phase
	thread   uint64
	random   SplitMix64
	zipf     Zipf
	sums     [len(mixNames)]float64 // of a mix: each name's share and those before it
	first    uint64                 // the operations of the threads before
	done     uint64
	num      uint64
	inserted uint64
}

func newOps(phase *Phase, thread uint64) *Ops {
	share, more := phase.Num/phase.Threads, phase.Num%phase.Threads
	ops := &Ops{
		phase:  phase,
		thread: thread,
		random: SplitMix64{phase.Seed + thread},
		first:  share*thread + min(more, thread),
		num:    share,
	}
	if thread < more {
		ops.num++
	}
	switch phase.Order {
	case "zipf":
		ops.zipf = zipfToScramble()
	case "latest":
		ops.zipf = newZipf(phase.Keyspace)
	}
	sum := 0.0
	for i, name := range mixNames {
		sum += phase.Mix[name]
		ops.sums[i] = sum
	}
	return ops
}

func (o *Ops) next() (op Op, ok bool) {
	if o.done == o.num {
		return Op{}, false
	}
	switch o.phase.Kind {
	case "put", "load":
		op = Op{do: doPut, n: o.key()}
	case "checkpoint":
		op = Op{do: doCheckpoint}
	case "delete":
		op = Op{do: doDelete, n: o.key()}
	case "get":
		op = o.get()
	case "scan":
		op = Op{do: doStep}
	case "seek":
		op = Op{do: doSeek, n: o.key(), steps: o.phase.SeekNext}
	case "txn-put":
		op = Op{do: doTxnPut, n: o.key()}
	case "txn-rmw":
		op = Op{do: doTxnReadModifyWrite, n: o.key()}
	case "txn-scan":
		op = Op{do: doTxnScan, n: o.key(), steps: o.phase.SeekNext}
	case "open":
		op = Op{do: doOpen}
	case "compact":
		op = Op{do: doCompact}
	case "mixed":
		op = o.mixed()
	}
	o.done++
	return op, true
}

func (o *Ops) key() uint64 {
	keyspace := o.phase.Keyspace
	inTurn := (o.first + o.done) % keyspace
	switch o.phase.Order {
	case "reverse":
		return keyspace - 1 - inTurn
	case "random", "missing":
		return o.random.number() % keyspace
	case "hot":
		return o.random.number() % max(keyspace/100, 1)
	case "zipf":
		return scramble(o.zipf.rank(&o.random), keyspace)
	case "latest":
		return o.latest()
	}
	return inTurn
}

func (o *Ops) latest() uint64 {
	rank := o.zipf.rank(&o.random)
	if rank < o.inserted {
		return o.insertNumber(o.inserted - 1 - rank)
	}
	return o.phase.Keyspace - 1 - (rank - o.inserted)
}

func (o *Ops) insertNumber(j uint64) uint64 {
	return o.phase.Keyspace + j*o.phase.Threads + o.thread
}

func (o *Ops) mixed() Op {
	drawn := o.random.fraction()
	place := 0
	for i, sum := range o.sums {
		if drawn < sum {
			place = i
			break
		}
	}
	switch mixNames[place] {
	case "insert":
		o.inserted++
		return Op{do: doPut, n: o.insertNumber(o.inserted - 1)}
	case "put":
		return Op{do: doPut, n: o.key()}
	case "scan":
		from := o.key()
		return Op{do: doSeek, n: from, steps: o.random.number()%max(o.phase.SeekNext, 1) + 1}
	case "rmw":
		return Op{do: doReadModifyWrite, n: o.key()}
	}
	return o.get()
}

func (o *Ops) get() Op {
	if o.phase.Order == "missing" {
		return Op{do: doGetMissing, n: o.key()}
	}
	return Op{do: doGet, n: o.key()}
}
