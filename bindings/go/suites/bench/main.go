// Bench measures a key-value store.
//
//	go run .                                   Terrace through goleveldb's interface, by the replace line of go.mod
//	go run -modfile=goleveldb.mod .            goleveldb
//	go run -modfile=levigo.mod -tags=levigo .  LevelDB itself, the system's library, through levigo
//
// It runs each phase once, with the default options and a new database, and prints its ns per operation:
// wall time, and processor time of the process. Values have 100 bytes, keys 16. The script compare runs all
// drivers in turns.
//
// The argument is the seed of the random keys.
package main

import (
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const entries = 200_000

// store is a database of a driver.
type store interface {
	put(key, value []byte) error
	get(key []byte) ([]byte, error)
	delete(key []byte) error
	// writeBatch writes the entries that fill passes to put.
	writeBatch(fill func(put func(key, value []byte))) error
	iterator() cursor
	close() error
}

// cursor is an iterator of a driver.
type cursor interface {
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	Seek(key []byte) bool
	Error() error
	Release()
}

// bench is the state of a run.
type bench struct {
	db     store
	key    [16]byte
	random *rand.Rand
}

func (b *bench) number(n int) []byte {
	copy(b.key[:], fmt.Appendf(b.key[:0], "%016d", n))
	return b.key[:]
}

var value = make([]byte, 100)

// phases are the rows of the table, in their order. Each returns its number of operations.
var phases = []struct {
	name string
	run  func(*bench) int
}{
	{"write sequential", func(b *bench) int { return b.write(func(i int) int { return i }) }},
	{"write random", func(b *bench) int { return b.write(func(int) int { return b.random.IntN(entries) }) }},
	{"write random, 4 goroutines", writeConcurrently},
	{"write batches of 100", func(b *bench) int { return b.writeBatches() }},
	{"read random", func(b *bench) int { return b.read(entries) }},
	{"read hot", func(b *bench) int { return b.read(entries / 100) }},
	{"iterate", func(b *bench) int { return b.iterate(cursor.First, cursor.Next) }},
	{"iterate in reverse", func(b *bench) int { return b.iterate(cursor.Last, cursor.Prev) }},
	{"seek random", (*bench).seek},
	{"delete random", (*bench).delete},
}

func (b *bench) write(number func(i int) int) int {
	for i := range entries {
		check(b.db.put(b.number(number(i)), value))
	}
	return entries
}

func writeConcurrently(b *bench) int {
	var group sync.WaitGroup
	for goroutine := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			own := bench{db: b.db, random: rand.New(rand.NewPCG(uint64(goroutine), 1))}
			for range entries / 4 {
				check(own.db.put(own.number(own.random.IntN(entries)), value))
			}
		}()
	}
	group.Wait()
	return entries
}

func (b *bench) writeBatches() int {
	for range entries / 100 {
		check(b.db.writeBatch(func(put func(key, value []byte)) {
			for range 100 {
				put(b.number(b.random.IntN(entries)), value)
			}
		}))
	}
	return entries
}

func (b *bench) read(keys int) int {
	for range entries {
		found, err := b.db.get(b.number(b.random.IntN(keys)))
		check(err)
		if len(found) != len(value) {
			log.Fatalf("a value has %d bytes", len(found))
		}
	}
	return entries
}

func (b *bench) iterate(start, step func(cursor) bool) (count int) {
	it := b.db.iterator()
	defer it.Release()
	for ok := start(it); ok; ok = step(it) {
		count++
	}
	check(it.Error())
	if count != entries {
		log.Fatalf("%d entries", count)
	}
	return count
}

func (b *bench) seek() int {
	it := b.db.iterator()
	defer it.Release()
	for range entries {
		if !it.Seek(b.number(b.random.IntN(entries))) {
			log.Fatal("a key is missing", it.Error())
		}
	}
	return entries
}

func (b *bench) delete() int {
	for range entries {
		check(b.db.delete(b.number(b.random.IntN(entries))))
	}
	return entries
}

// clocks returns the wall time and the processor time of the process.
func clocks() [2]time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	processor := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return [2]time.Duration{time.Since(start), processor}
}

var start = time.Now()

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: bench SEED")
	}
	seed, err := strconv.ParseUint(os.Args[1], 10, 64)
	check(err)
	directory, err := os.MkdirTemp("", "bench-")
	check(err)
	db, err := openStore(filepath.Join(directory, "db"))
	check(err)
	b := &bench{db: db, random: rand.New(rand.NewPCG(seed, 0))}
	for _, phase := range phases {
		before := clocks()
		operations := int64(phase.run(b))
		after := clocks()
		wall, processor := int64(after[0]-before[0]), int64(after[1]-before[1])
		fmt.Printf("%s\t%d\t%d\n", phase.name, wall/operations, processor/operations)
	}
	check(db.close())
	check(os.RemoveAll(directory))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
