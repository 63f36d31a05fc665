package main

import (
	"slices"
	"time"
)

// Windows counts operations by the 100 ms of the phase in which they ended.
type Windows []uint64

const (
	width     = 100 * time.Millisecond
	perSecond = int(time.Second / width)
)

func (w *Windows) record(at time.Duration, ops uint64) {
	w.reach(int(at/width) + 1)
	(*w)[at/width] += ops
}

func (w *Windows) add(other Windows) {
	w.reach(len(other))
	for i, ops := range other {
		(*w)[i] += ops
	}
}

// reach appends windows without operations until there are at least length windows.
func (w *Windows) reach(length int) {
	for len(*w) < length {
		*w = append(*w, 0)
	}
}

func (w Windows) seconds() Windows {
	seconds := Windows{}
	for tenths := range slices.Chunk(w, perSecond) {
		sum := uint64(0)
		for _, ops := range tenths {
			sum += ops
		}
		seconds = append(seconds, sum)
	}
	return seconds
}

// slowest is the share that the slowest whole window has of the mean; nil without a whole one.
func (w Windows) slowest(width, length time.Duration) *float64 {
	whole := min(int(length/width), len(w))
	if whole == 0 {
		return nil
	}
	sum := uint64(0)
	for _, ops := range w {
		sum += ops
	}
	if sum == 0 {
		return nil
	}
	mean := float64(sum) * width.Seconds() / length.Seconds()
	share := float64(slices.Min(w[:whole])) / mean
	return &share
}
