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

// clock is the clock of a phase, the same as in src/run/clock.rs. It reads the processor's counter if the counter is
// the system's clock source, and otherwise the system's clock. A worker reads it once for each operation, so it must be
// fast.
type clock struct {
	start moment
	rate  uint64 // nanoseconds of 2^32 ticks; 0 if the system's clock is read
}

// learnRate returns the length of a tick as clock.rate. The first call of the process measures it, which takes learning.
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

// learning is the time between the two moments that learnRate compares. It is long compared with the time between the
// two readings of a moment.
const learning = 20 * time.Millisecond

func startClock() clock { return clock{rate: learnRate(), start: now()} }

// since returns the time since the start.
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

// agrees returns an error if the counter and the system's clock disagree by more than 1 % and 1 ms.
func (c *clock) agrees() error {
	now := now()
	system := now.time.Sub(c.start.time)
	if c.rate == 0 || (c.scale(now.ticks)-system).Abs() <= system/100+time.Millisecond {
		return nil
	}
	return fmt.Errorf("wrong time: the processor's counter says %v, the system's clock %v", c.scale(now.ticks), system)
}

// moment is a reading of both clocks at nearly the same time.
type moment struct {
	time  time.Time
	ticks uint64
}

// now reads both clocks, one after the other, eight times. It returns the attempt with the least time between both
// readings.
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

// isTheSystems returns whether the processor's counter is the system's clock source.
func isTheSystems() bool {
	if runtime.GOARCH != "amd64" {
		return false
	}
	source, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(source)) == "tsc"
}
