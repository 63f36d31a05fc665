package main

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"time"
)

// control returns the handler of the commands. An answer that is not 200 contains the reason.
//
//	/counts                        requests since the start, as lines "METHOD NUMBER"
//	/split?key=HEX&key=HEX..       splits regions at the keys
//	/leaders                       moves all leaders to the next store
//	/stop?store=N  /start?store=N  stops or starts a store; leaders move after the election time
//	/refuse?method=M&count=N       the next N requests of the method fail and have no effect
//	/lose?method=M&count=N         the next N requests of the method take effect without an answer
//	/put?key=HEX&value=HEX         stores a key without the protocol
//	/orphan?key=HEX                locks a key for a transaction without a primary lock
//	/delay?ms=N                    each request takes N milliseconds longer, such as 0.2
func (d *double) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/counts", d.printCounts)
	mux.HandleFunc("/split", d.command(d.splitAll))
	mux.HandleFunc("/leaders", d.command(func(*http.Request) error {
		d.electLeaders(true)
		return nil
	}))
	mux.HandleFunc("/stop", d.command(func(r *http.Request) error { return d.stopOrStart(r, true) }))
	mux.HandleFunc("/start", d.command(func(r *http.Request) error { return d.stopOrStart(r, false) }))
	mux.HandleFunc("/refuse", d.command(func(r *http.Request) error { return d.plan(r, d.refused) }))
	mux.HandleFunc("/lose", d.command(func(r *http.Request) error { return d.plan(r, d.lost) }))
	mux.HandleFunc("/put", d.command(func(r *http.Request) error {
		value, err := hex.DecodeString(r.FormValue("value"))
		if err != nil {
			return err
		}
		return withKey(r, func(key []byte) error { return d.put(key, value) })
	}))
	mux.HandleFunc("/orphan", d.command(func(r *http.Request) error {
		return withKey(r, func(key []byte) error {
			_, err := d.lock(key, []byte(string(key)+"-primary"), []byte("never"))
			return err
		})
	}))
	mux.HandleFunc("/delay", d.command(func(r *http.Request) error {
		ms, err := strconv.ParseFloat(r.FormValue("ms"), 64)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.delay = time.Duration(ms * float64(time.Millisecond))
		return err
	}))
	return mux
}

func (d *double) command(run func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := run(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
}

// withKey runs a command on the key of a request.
func withKey(r *http.Request, run func(key []byte) error) error {
	key, err := hex.DecodeString(r.FormValue("key"))
	if err != nil {
		return err
	}
	return run(key)
}

func (d *double) printCounts(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for name, count := range d.counts {
		lines = append(lines, fmt.Sprintf("%s %d\n", name, count))
	}
	sort.Strings(lines)
	for _, line := range lines {
		fmt.Fprint(w, line)
	}
}

func (d *double) splitAll(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	d.topology.Lock()
	defer d.topology.Unlock()
	for _, text := range r.Form["key"] {
		key, err := hex.DecodeString(text)
		if err != nil {
			return err
		}
		d.split(key)
	}
	d.moveLeaders(false)
	return nil
}

func (d *double) stopOrStart(r *http.Request, stop bool) error {
	index, err := strconv.Atoi(r.FormValue("store"))
	if err != nil || index < 0 || index >= len(d.storeIDs) {
		return fmt.Errorf("store=%s: expected 0 to %d", r.FormValue("store"), len(d.storeIDs)-1)
	}
	d.setStopped(index, stop)
	return nil
}

func (d *double) plan(r *http.Request, faults map[string]int) error {
	count, err := strconv.Atoi(r.FormValue("count"))
	d.mu.Lock()
	defer d.mu.Unlock()
	faults[r.FormValue("method")] = count
	return err
}
