package main

import (
	"math"
	"math/bits"
	"time"
)

// Histogram counts latencies in buckets whose width grows with them; src/run/histogram.rs draws them.
type Histogram struct {
	counts [buckets]uint64
	count  uint64
	sum    uint64
	max    uint64
}

const (
	bucketBits = 6
	each       = 1 << bucketBits
	buckets    = (64 - bucketBits + 1) << bucketBits
)

func bucket(ns uint64) int {
	if ns < each {
		return int(ns)
	}
	shift := 63 - bucketBits - bits.LeadingZeros64(ns)
	return (shift+1)<<bucketBits + int(ns>>shift) - each
}

// upper returns the greatest latency in nanoseconds that bucket counts.
func upper(bucket int) uint64 {
	shift, place := bucket>>bucketBits, uint64(bucket%each)
	if shift == 0 {
		return place
	}
	return (each+place+1)<<(shift-1) - 1 // the last one's wraps to the greatest number, as it must
}

// record counts operations of equal latency: their number is times, and each of them took took.
func (h *Histogram) record(took time.Duration, times uint64) {
	ns := uint64(took)
	h.counts[bucket(ns)] += times
	h.count += times
	h.sum += ns * times
	h.max = max(h.max, ns)
}

func (h *Histogram) add(other *Histogram) {
	for i, count := range other.counts {
		h.counts[i] += count
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// percentile returns the latency in nanoseconds that this share of the operations did not exceed.
func (h *Histogram) percentile(share float64) uint64 {
	rank := max(uint64(math.Ceil(float64(h.count)*share)), 1)
	seen := uint64(0)
	for i, count := range h.counts {
		if seen += count; seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

// Latency is the summary of a histogram in a result. src/report/model.rs defines its fields.
type Latency struct {
	P50       uint64      `json:"p50"`
	P90       uint64      `json:"p90"`
	P99       uint64      `json:"p99"`
	P999      uint64      `json:"p99_9"`
	P9999     uint64      `json:"p99_99"`
	Max       uint64      `json:"max"`
	Mean      uint64      `json:"mean"`
	Histogram [][2]uint64 `json:"histogram"`
}

func (h *Histogram) summary() Latency {
	full := [][2]uint64{}
	for i, count := range h.counts {
		if count > 0 {
			full = append(full, [2]uint64{upper(i), count})
		}
	}
	return Latency{
		P50:       h.percentile(0.5),
		P90:       h.percentile(0.9),
		P99:       h.percentile(0.99),
		P999:      h.percentile(0.999),
		P9999:     h.percentile(0.9999),
		Max:       h.max,
		Mean:      h.sum / max(h.count, 1),
		Histogram: full,
	}
}
