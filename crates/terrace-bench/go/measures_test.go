package main

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestBucketsMeetAndAreNarrow(t *testing.T) {
	if bucket(math.MaxUint64) != buckets-1 || upper(buckets-1) != math.MaxUint64 {
		t.Error("the last bucket does not end with the numbers")
	}
	for at := 1; at < buckets; at++ {
		below, here := upper(at-1), upper(at)
		if bucket(below) != at-1 || bucket(below+1) != at || bucket(here) != at || here-below > max(here/each, 1) {
			t.Fatalf("bucket %d: %d to %d", at, below, here)
		}
	}
}

func TestOneSlowAmongMany(t *testing.T) {
	var all, slow Histogram
	all.record(100, 999)
	slow.record(time.Millisecond, 1)
	all.add(&slow)
	found := all.summary()
	if found.P99 != 100 || found.P9999 != 1_000_000 || found.Max != 1_000_000 || found.Mean != 1099 {
		t.Errorf("%+v", found)
	}
}

func TestWindowsShowAStall(t *testing.T) {
	var windows Windows
	for ms, ops := range map[time.Duration]uint64{0: 10, 99: 10, 450: 20, 1000: 4} {
		windows.record(ms*time.Millisecond, ops)
	}
	if found := fmt.Sprint(windows, windows.seconds()); found != "[20 0 0 0 20 0 0 0 0 0 4] [40 4]" {
		t.Error(found)
	}
	length := 1100 * time.Millisecond
	if share := windows.slowest(width, length); share == nil || *share != 0 {
		t.Error("the empty windows are the slowest")
	}
	if share := windows.seconds().slowest(time.Second, length); share == nil || math.Abs(*share-1) > 1e-9 {
		t.Error("40 in the one whole second are 40 a second, as in all")
	}
	if windows.slowest(width, time.Millisecond) != nil {
		t.Error("there is no whole window to judge")
	}
}
