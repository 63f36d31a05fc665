// Measures goleveldb, Pebble and Badger for `terrace bench`: reads a run request, executes its phases, and reports the
// results.
//
//	stdin    {"engine":"pebble","dir":"...","settings":{...},"phases":[{"row":0,"workload":{...}},...]}
//	stdout   {"tick":{"row":0,"done":1,"of":9}}   now and then
//	         {"result":{...}}                     after each phase
//	         {"error":"..."}                      instead of a result; the process then fails
//
// The protocol is defined in src/run/protocol.rs, the workload in src/workload/phase_spec.rs, the measures in
// src/report/model.rs of the surrounding crate. This program does exactly the same work, so that results compare.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// turn is a run request: the phases that one process executes.
type turn struct {
	Engine   string   `json:"engine"`
	Dir      string   `json:"dir"`
	Settings Settings `json:"settings"`
	Phases   []struct {
		Row      int   `json:"row"`
		Workload Phase `json:"workload"`
	} `json:"phases"`
}

func main() {
	if err := run(); err != nil {
		say("error", err.Error())
		os.Exit(1)
	}
}

func run() error {
	var turn turn
	if err := json.NewDecoder(os.Stdin).Decode(&turn); err != nil {
		return fmt.Errorf("the turn on standard input: %w", err)
	}
	open, err := engineByID(turn.Engine)
	if err != nil {
		return err
	}
	place := &place{open: open, dir: turn.Dir, settings: turn.Settings}
	for _, phase := range turn.Phases {
		if err := phase.Workload.check(); err != nil {
			return err
		}
		result, err := place.tell(phase.Row, &phase.Workload)
		if err != nil {
			return err
		}
		result.Row, result.Engine = phase.Row, turn.Engine
		say("result", result)
	}
	return place.close()
}

// tell executes phase and reports its progress while it runs.
func (p *place) tell(row int, phase *Phase) (Result, error) {
	shared := &shared{phase: phase}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(tickEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				say("tick", tick{row, shared.done.Load(), phase.Num})
			case <-end:
				return
			}
		}
	}()
	result, err := p.run(phase, shared)
	close(end)
	<-ended
	return result, err
}

const tickEvery = 200 * time.Millisecond

type tick struct {
	Row  int    `json:"row"`
	Done uint64 `json:"done"`
	Of   uint64 `json:"of"`
}

// say writes a message as one line to standard output. It ignores errors, because a write fails only if nobody reads
// the output any more.
func say(what string, value any) { _ = json.NewEncoder(os.Stdout).Encode(map[string]any{what: value}) }
