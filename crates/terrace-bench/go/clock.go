package main

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// clock says in Go what src/run/clock.rs says in Rust: the processor's counter where the system keeps its own time by
// it, because it is read once for each operation, and else the system's clock.
type clock struct {
	start moment
	rate  uint64 // nanoseconds of 2^32 ticks; 0 if the system's clock is read
}

// learnRate takes some hundredths of a second, once.
var learnRate = sync.OnceValue(func() uint64 {
	if !isTheSystems() {
		return 0
	}
	from := now()
	time.Sleep(learning)
	to := now()
	high, low := bits.Mul64(uint64(to.time.Sub(from.time)), 1<<32)
	rate, _ := bits.Div64(high, low, to.ticks-from.ticks)
	return rate
})

const learning = 20 * time.Millisecond // long beside what may lie between the two readings of a moment

func startClock() clock { return clock{rate: learnRate(), start: now()} }

// since is the time since the start.
func (c *clock) since() time.Duration {
	if c.rate == 0 {
		return time.Since(c.start.time)
	}
	return c.scale(ticks())
}

func (c *clock) scale(ticks uint64) time.Duration {
	high, low := bits.Mul64(ticks-min(ticks, c.start.ticks), c.rate)
	return time.Duration(high<<32 | low>>32)
}

// agrees refuses what was measured if the system's clock says something else.
func (c *clock) agrees() error {
	now := now()
	system := now.time.Sub(c.start.time)
	if c.rate == 0 || (c.scale(now.ticks)-system).Abs() <= system/100+time.Millisecond {
		return nil
	}
	return fmt.Errorf("wrong time: the processor's counter says %v, the system's clock %v", c.scale(now.ticks), system)
}

// moment is the same by both clocks.
type moment struct {
	time  time.Time
	ticks uint64
}

// now reads the clocks one after the other; of several attempts it takes the one with the least between them.
func now() (best moment) {
	least := time.Duration(1<<63 - 1)
	for range 8 {
		attempt := moment{time.Now(), ticks()}
		if between := time.Since(attempt.time); between < least {
			best, least = attempt, between
		}
	}
	return best
}

// isTheSystems says whether the system has found the counter fit for its own time.
func isTheSystems() bool {
	if runtime.GOARCH != "amd64" {
		return false
	}
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(source)) == "tsc"
}
