package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// liar is a store that knows one value only.
type liar struct {
	Store
	value []byte
}

func (l liar) Get(_, into []byte) ([]byte, bool, error) { return append(into, l.value...), true, nil }

func newTestWorker(store Store) *worker {
	phase := &Phase{Kind: "get", Num: 1, Keyspace: 100, Threads: 1, KeySize: 4, ValueSize: 10, Verify: true}
	return newWorker(&shared{phase: phase}, store)
}

func TestWrongValueIsRefused(t *testing.T) {
	value := make([]byte, 10)
	writeValue(7, 0, value)
	if err := newTestWorker(liar{value: value}).get(7); err != nil {
		t.Errorf("the right value: %v", err)
	}
	for _, wrong := range [][]byte{nil, value[:9], append(bytes.Clone(value), 0), append([]byte{value[0] ^ 1}, value[1:]...)} {
		err := newTestWorker(liar{value: wrong}).get(7)
		if err == nil || !strings.HasPrefix(err.Error(), "wrong value at key 7: found ") {
			t.Errorf("%q was taken for %q: %v", wrong, value, err)
		}
	}
}

func TestKeyThatNobodyPutIsRefused(t *testing.T) {
	err := newTestWorker(liar{}).getMissing(7)
	if fmt.Sprint(err) != `wrong answer: found "000." (4 bytes), which was never put` {
		t.Error(err)
	}
}

// durable counts puts, and those that are durable.
type durable struct {
	Store
	puts   int
	synced []int
}

func (d *durable) Put(_, _ []byte, sync bool) error {
	d.puts++
	if sync {
		d.synced = append(d.synced, d.puts)
	}
	return nil
}

func TestLastOfSoManyWritesIsDurable(t *testing.T) {
	store := &durable{}
	worker := newTestWorker(store)
	worker.phase.SyncEvery = 3
	for range 8 {
		if err := worker.put(7); err != nil {
			t.Fatal(err)
		}
	}
	if found := fmt.Sprint(store.synced); found != "[3 6]" {
		t.Errorf("durable were %s", found)
	}
}
