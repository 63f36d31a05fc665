package main

import (
	"fmt"
	"strings"
)

// Store is an open database. Goroutines share it.
type Store interface {
	Put(key, value []byte, sync bool) error
	Delete(key []byte, sync bool) error
	// Write applies changes atomically.
	Write(changes []Change, sync bool) error
	// Get appends the value of key to into, and returns whether it exists.
	Get(key, into []byte) (value []byte, found bool, err error)
	// Cursor returns a cursor over the current entries, not yet at an entry.
	Cursor() (Cursor, error)
	// Compact compacts the whole database and waits for the end.
	Compact() error
	Close() error
}

// Change is one change of a batch; no value deletes the key.
type Change struct{ key, value []byte }

// Cursor is a position among the entries. Every move returns whether there is an entry; Close returns the error of a
// failed move. Key and Value are valid until the next move.
type Cursor interface {
	First() bool
	Last() bool
	Seek(key []byte) bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() ([]byte, error)
	Close() error
}

// Settings are the settings of an engine; nil selects the engine's own default.
type Settings struct {
	WriteBufferBytes *uint64 `json:"write_buffer_bytes"`
	CacheBytes       *uint64 `json:"cache_bytes"`
	FilterBits       *int    `json:"filter_bits"`
	Compression      *string `json:"compression"`
}

type open func(dir string, settings Settings) (Store, error)

// engines are the engines that this program can measure.
var engines = []struct {
	id   string
	open open
}{
	{"goleveldb", openGoleveldb},
	{"pebble", openPebble},
	{"badger", openBadger},
}

func engineByID(id string) (open, error) {
	var known []string
	for _, engine := range engines {
		if engine.id == id {
			return engine.open, nil
		}
		known = append(known, engine.id)
	}
	return nil, fmt.Errorf("no engine %q; there are %s", id, strings.Join(known, ", "))
}
