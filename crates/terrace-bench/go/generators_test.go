package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The crate reads the same file (tests/generators.rs), so that both programs do the same to every engine.
const generators = "../tests/generators.txt"

func TestGeneratorsAreThoseOfTheCrate(t *testing.T) {
	text, err := os.ReadFile(generators)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for number, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		input, expect, _ := strings.Cut(line, " = ")
		if found := generate(t, input); found != expect {
			t.Errorf("line %d: %s\n   found %s\nexpected %s", number+1, input, found, expect)
		}
		checked++
	}
	if checked < 20 {
		t.Errorf("only %d lines in %s", checked, generators)
	}
}

func generate(t *testing.T, input string) string {
	what, rest, _ := strings.Cut(input, " ")
	words := strings.Fields(rest)
	switch what {
	case "splitmix":
		random := SplitMix64{number(t, words[0])}
		return several(random.number)
	case "key", "missing":
		key := make([]byte, number(t, words[1]))
		writeKey(number(t, words[0]), key)
		if what == "missing" {
			makeMissing(key)
		}
		return string(key)
	case "value":
		compress, err := strconv.ParseFloat(words[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		value := make([]byte, number(t, words[1]))
		n := number(t, words[0])
		writeValue(n, compress, value)
		matchesOnly(t, n, compress, value)
		return hex.EncodeToString(value)
	case "zipf":
		zipf, random := newZipf(number(t, words[0])), SplitMix64{number(t, words[1])}
		return several(func() uint64 { return zipf.rank(&random) })
	case "zipf-to-scramble":
		zipf, random := zipfToScramble(), SplitMix64{number(t, words[0])}
		return several(func() uint64 { return zipf.rank(&random) })
	case "scramble":
		return fmt.Sprint(scramble(number(t, words[0]), number(t, words[1])))
	case "ops":
		return operations(t, rest)
	}
	t.Fatalf("%q is nothing that can be generated", what)
	return ""
}

// matchesOnly checks that value is taken for that of n, and with any bit flipped it is not.
func matchesOnly(t *testing.T, n uint64, compress float64, value []byte) {
	if !matches(n, compress, value) {
		t.Errorf("%x was not taken for the value of %d", value, n)
	}
	for at := range value {
		value[at] ^= 1
		if matches(n, compress, value) {
			t.Errorf("a flipped bit in byte %d of the value of %d was not seen", at, n)
		}
		value[at] ^= 1
	}
}

func TestDigits(t *testing.T) {
	for _, size := range []int{8, 9, 16, 19} {
		for four := uint64(0); four < 10_000; four++ {
			for _, n := range []uint64{four, four * 10_000, 99_990_000 + four} {
				key := make([]byte, size)
				writeKey(n, key)
				if read, ok := readKey(key); string(key) != fmt.Sprintf("%0*d", size, n) || !ok || read != n {
					t.Fatalf("%d in %d bytes: %q, read as %d", n, size, key, read)
				}
			}
		}
	}
	for place := range 17 {
		for byt := range 256 {
			key := []byte("99999999999999999")
			key[place] = byte(byt)
			if _, ok := readKey(key); ok != (byt >= '0' && byt <= '9') {
				t.Errorf("byte %d at %d: taken for a digit: %v", byt, place, ok)
			}
		}
	}
	if _, ok := readKey([]byte("99999999999999999999")); ok {
		t.Error("20 nines are no number of 64 bits")
	}
}

func number(t *testing.T, text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func several(next func() uint64) string {
	numbers := make([]string, 8)
	for i := range numbers {
		numbers[i] = fmt.Sprint(next())
	}
	return strings.Join(numbers, " ")
}

// operations returns the operations of one thread: "1 {phase}" asks for the operations of thread 1.
func operations(t *testing.T, input string) string {
	thread, description, _ := strings.Cut(input, " ")
	phase := Phase{Num: 10, Keyspace: 1000, Threads: 2, Seed: 301, SeekNext: 10}
	if err := json.Unmarshal([]byte(description), &phase); err != nil {
		t.Fatal(err)
	}
	ops := newOps(&phase, number(t, thread))
	var words []string
	for op, ok := ops.next(); ok; op, ok = ops.next() {
		words = append(words, word(op))
	}
	return strings.Join(words, " ")
}

func word(op Op) string {
	switch op.do {
	case doStep, doOpen, doCompact, doCheckpoint:
		return names[op.do]
	case doSeek:
		return fmt.Sprintf("seek:%d+%d", op.n, op.steps)
	}
	return fmt.Sprintf("%s:%d", names[op.do], op.n)
}

var names = map[do]string{
	doPut: "put", doDelete: "delete", doGet: "get", doGetMissing: "missing", doStep: "step", doReadModifyWrite: "rmw",
	doOpen: "open", doCompact: "compact", doCheckpoint: "checkpoint",
}
