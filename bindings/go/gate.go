package terrace

import (
	"math"
	"sync/atomic"
)

// gate counts the calls that use a handle of the engine, so that its end waits for them.
//
//	calls >= 0   open, with this number of calls in progress
//	calls <  0   shut: shutBias plus the number of calls in progress
type gate struct {
	calls atomic.Int64
	idle  chan struct{} // has an item after a call that ended at a shut gate
}

const shutBias = math.MinInt64 / 2

func newGate() gate {
	return gate{idle: make(chan struct{}, 1)}
}

// enter begins a call and returns true, or returns false if the gate is shut.
func (g *gate) enter() bool {
	if g.calls.Add(1) < 0 {
		g.leave()
		return false
	}
	return true
}

// leave ends a call.
func (g *gate) leave() {
	if g.calls.Add(-1) == shutBias {
		select {
		case g.idle <- struct{}{}:
		default: // Item present.
		}
	}
}

// isShut reports whether shut has begun.
func (g *gate) isShut() bool {
	return g.calls.Load() < 0
}

// shut refuses all later calls and waits for those in progress. Returns false if the gate was shut
// before.
func (g *gate) shut() bool {
	for {
		calls := g.calls.Load()
		if calls < 0 {
			return false
		}
		if g.calls.CompareAndSwap(calls, calls+shutBias) {
			break
		}
	}
	for g.calls.Load() != shutBias {
		<-g.idle
	}
	return true
}
