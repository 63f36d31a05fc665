package terrace

// #include <stdlib.h>
// #include "terrace/terrace.h"
import "C"

import "unsafe"

// numLevels is the number of levels of LevelDB's format.
const numLevels = 7

// Level is the size of one level.
type Level struct {
	Tables int
	Bytes  uint64
}

// Stats are statistics of an open database.
type Stats struct {
	Levels       []Level
	Memory       uint64 // bytes of memtables, cached blocks and open tables
	Iterators    int    // number of open iterators
	Snapshots    int    // number of snapshots that are not released
	Transactions int    // number of transactions that have not ended
	Text         string // the property terrace.stats: cache, filters, stalls, histograms
	WouldWait    bool   // whether a write would probably be delayed now
}

// Stats returns statistics of the database.
func (db *DB) Stats() (stats Stats, err error) {
	err = db.call(func() {
		var levels [numLevels]C.terrace_level
		count := C.terrace_levels(db.db, &levels[0], numLevels)
		for _, level := range levels[:min(count, numLevels)] {
			stats.Levels = append(stats.Levels, Level{int(level.files), uint64(level.bytes)})
		}
		stats.Memory, _ = db.number("terrace.memory")
		stats.Text, _ = db.property("terrace.stats")
		stats.WouldWait = C.terrace_would_wait(db.db) != 0
	})
	if err != nil {
		return Stats{}, err
	}
	open := db.children.numbers()
	stats.Iterators, stats.Snapshots, stats.Transactions = open[iteratorChild], open[snapshotChild], open[txnChild]
	return stats, nil
}

// Property returns a property as text: leveldb.stats, leveldb.sstables, leveldb.num-files-at-level0,
// leveldb.approximate-memory-usage, terrace.stats, terrace.memory, terrace.lag. Returns ErrNotFound for
// another name.
func (db *DB) Property(name string) (text string, err error) {
	found := false
	if err = db.call(func() { text, found = db.property(name) }); err != nil {
		return "", err
	}
	if !found {
		return "", ErrNotFound
	}
	return text, nil
}

func (h *handle) property(name string) (string, bool) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	text := C.terrace_property_value(h.db, cName)
	return takeString(text), text != nil
}

func (h *handle) number(name string) (uint64, bool) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var value C.uint64_t
	found := C.terrace_property_number(h.db, cName, &value)
	return uint64(value), found != 0
}

// Version returns the version of the engine.
func Version() string { return C.GoString(C.terrace_version()) }
