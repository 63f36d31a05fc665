package main

import (
	"strings"
	"testing"
	"time"
)

const pause = 30 * time.Millisecond // long enough for a wrong rate to show

func TestBothClocksTellTheTime(t *testing.T) {
	counter := startClock()
	system := counter
	system.rate = 0
	for _, clock := range []clock{counter, system} {
		before := clock.since()
		time.Sleep(pause)
		if after := clock.since(); before >= after {
			t.Errorf("%v, then %v: %+v rests", before, after, clock)
		}
		if err := clock.agrees(); err != nil {
			t.Error(err)
		}
	}
}

func TestCounterThatIsFastIsRefused(t *testing.T) {
	if ticks() == 0 {
		t.Skip("no counter is read here")
	}
	clock := startClock()
	clock.rate = 1 << 34
	time.Sleep(pause)
	if err := clock.agrees(); err == nil || !strings.HasPrefix(err.Error(), "wrong time: ") {
		t.Errorf("four nanoseconds for a tick were taken for right: %v", err)
	}
}
