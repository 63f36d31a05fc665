// Package goleveldb tests the binding beside goleveldb itself.
package goleveldb

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
	terrace "terracedb.org/go"
)

// everything is the range of all keys.
var everything = util.Range{}

// engine is the part of both interfaces that the test needs.
type engine interface {
	put(key, value []byte) error
	delete(key []byte) error
	entries() ([]string, error)
	compact() error
	Close() error
}

type theirs struct{ *leveldb.DB }

func (d theirs) put(key, value []byte) error { return d.Put(key, value, nil) }
func (d theirs) delete(key []byte) error     { return d.Delete(key, nil) }
func (d theirs) compact() error              { return d.CompactRange(everything) }

func (d theirs) entries() (entries []string, err error) {
	it := d.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		entries = append(entries, fmt.Sprintf("%q=%q", it.Key(), it.Value()))
	}
	return entries, it.Error()
}

type ours struct{ *terrace.DB }

func (d ours) put(key, value []byte) error { return d.Put(key, value, nil) }
func (d ours) delete(key []byte) error     { return d.Delete(key, nil) }
func (d ours) compact() error              { return d.CompactRange(nil, nil) }

func (d ours) entries() (entries []string, err error) {
	it := d.NewIterator(nil)
	defer it.Release()
	for it.Next() {
		entries = append(entries, fmt.Sprintf("%q=%q", it.Key(), it.Value()))
	}
	return entries, it.Error()
}

func open(path string, withTerrace bool) (engine, error) {
	if withTerrace {
		db, err := terrace.Open(path, nil)
		return ours{db}, err
	}
	db, err := leveldb.OpenFile(path, nil)
	return theirs{db}, err
}

// Terrace and goleveldb open one database in random turns. Each of them finds all writes of the other.
func TestAlternateWriters(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "db")
	model := map[string][]byte{}
	for turn := range 60 {
		db, err := open(path, random.IntN(2) == 0)
		if err != nil {
			t.Fatalf("seed %d, turn %d: %v", seed, turn, err)
		}
		checkEntries(t, fmt.Sprintf("seed %d, turn %d", seed, turn), db, model)
		for range random.IntN(2000) {
			key := fmt.Appendf(nil, "k%04d", random.IntN(3000))
			if random.IntN(4) == 0 {
				err = errors.Join(err, db.delete(key))
				delete(model, string(key))
				continue
			}
			value := bytes.Repeat([]byte{byte(turn)}, random.IntN(2000))
			err = errors.Join(err, db.put(key, value))
			model[string(key)] = value
		}
		if random.IntN(5) == 0 {
			err = errors.Join(err, db.compact())
		}
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatalf("seed %d, turn %d: %v", seed, turn, err)
		}
	}
}

func checkEntries(t *testing.T, what string, db engine, model map[string][]byte) {
	t.Helper()
	entries, err := db.entries()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var expected []string
	for _, key := range slices.Sorted(maps.Keys(model)) {
		expected = append(expected, fmt.Sprintf("%q=%q", key, model[key]))
	}
	if !slices.Equal(entries, expected) {
		t.Fatalf("%s: %d entries, expected %d", what, len(entries), len(expected))
	}
}

// Each of them refuses a directory that the other one has open.
func TestSecondOpener(t *testing.T) {
	for _, withTerrace := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "db")
		db, err := open(path, withTerrace)
		if err != nil {
			t.Fatal(err)
		}
		_, err = open(path, !withTerrace)
		if !errors.Is(err, terrace.Locked) && !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("second opener: %v", err)
		}
		if err = errors.Join(db.put([]byte("a"), nil), db.Close()); err != nil {
			t.Error(err)
		}
	}
}
