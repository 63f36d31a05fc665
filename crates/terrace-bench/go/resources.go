package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// This file measures the resource usage of this process, as src/run/resources.rs does. A nil result means that the
// system does not provide the counter.

// counters are the measurements that only grow.
type counters struct {
	cpu         time.Duration // of all threads
	deviceBytes *uint64
}

func countersNow() counters { return counters{cpuTime(), deviceBytes()} }

func (c counters) cpuSince(before counters) float64 { return (c.cpu - before.cpu).Seconds() }

func (c counters) deviceBytesSince(before counters) *uint64 {
	if c.deviceBytes == nil || before.deviceBytes == nil {
		return nil
	}
	more := *c.deviceBytes - min(*before.deviceBytes, *c.deviceBytes)
	return &more
}

// cpuTime returns the processor time of all threads. getrusage cannot fail with these arguments.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func deviceBytes() *uint64 {
	text, _ := os.ReadFile("/proc/self/io")
	written, cancelled := field(text, "write_bytes:"), field(text, "cancelled_write_bytes:")
	if written == nil || cancelled == nil {
		return nil
	}
	left := *written - min(*cancelled, *written)
	return &left
}

// field returns the number on the line that begins with name.
func field(text []byte, name string) *uint64 {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if words := strings.Fields(rest); found && len(words) > 0 {
			if number, err := strconv.ParseUint(words[0], 10, 64); err == nil {
				return &number
			}
		}
	}
	return nil
}

// forgetPeakMemory resets peakMemory, if the system permits it.
func forgetPeakMemory() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func peakMemory() *uint64 {
	text, _ := os.ReadFile("/proc/self/status")
	peak := field(text, "VmHWM:")
	if peak != nil {
		*peak *= 1024
	}
	return peak
}

// space returns the disk space in bytes of the files below dir.
func space(dir string) *uint64 {
	sum := uint64(0)
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil // the file was removed after the listing
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += uint64(stat.Blocks) * 512
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return &sum
}

const (
	look     = 20 * time.Millisecond  // polling interval
	idle     = 400 * time.Microsecond // processor time per poll that counts as idle
	looks    = 8                      // consecutive idle polls after which background work has ended
	patience = 600 * time.Second      // maximum wait
)

// waitUntilQuiet waits until the other threads are idle, and returns how long they were busy.
func waitUntilQuiet() *float64 {
	start, before := time.Now(), cpuTime()
	busyUntil := time.Duration(0)
	for quiet := 0; quiet < looks; quiet++ {
		time.Sleep(look)
		now := cpuTime()
		if now-before > idle {
			busyUntil, quiet = time.Since(start), -1
		}
		before = now
		if time.Since(start) > patience {
			return nil
		}
	}
	seconds := busyUntil.Seconds()
	return &seconds
}
