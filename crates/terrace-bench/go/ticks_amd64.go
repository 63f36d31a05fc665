package main

// ticks is the processor's counter.
func ticks() uint64
