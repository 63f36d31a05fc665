// The program mixedprocess writes or follows a database that programs of several languages share: see
// bindings/mixed/README.md.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	terrace "terracedb.org/go"
)

const (
	slots      = 16
	live       = 8
	recordSize = 9
)

func main() {
	log.SetFlags(0)
	verb, library, directory := os.Args[1], os.Args[2], os.Args[3]
	if verb == "follow" {
		follow(directory)
		return
	}
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	check(err)
	writeStates(openWriter(library, directory), directory, time.Duration(seconds*float64(time.Second)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// operation is a put, or a deletion without a value.
type operation struct{ key, value []byte }

// writer is the part of both libraries that the program needs.
type writer interface {
	write(operations []operation) error
	cursor() cursor
	Close() error
}

// cursor is an iterator of either library.
type cursor interface {
	Next() bool
	Key() []byte
	Value() []byte
	Error() error
	Release()
}

type theirs struct{ *leveldb.DB }

func (d theirs) cursor() cursor { return d.NewIterator(nil, nil) }

func (d theirs) write(operations []operation) error {
	var batch leveldb.Batch
	for _, o := range operations {
		if o.value == nil {
			batch.Delete(o.key)
		} else {
			batch.Put(o.key, o.value)
		}
	}
	return d.Write(&batch, nil)
}

type ours struct{ *terrace.DB }

func (d ours) cursor() cursor { return d.NewIterator(nil) }

func (d ours) write(operations []operation) error {
	var batch terrace.Batch
	for _, o := range operations {
		if o.value == nil {
			batch.Delete(o.key)
		} else {
			batch.Put(o.key, o.value)
		}
	}
	return d.Write(&batch, nil)
}

func openWriter(library, directory string) writer {
	if library == "goleveldb" {
		db, err := leveldb.OpenFile(directory, &opt.Options{WriteBuffer: 1 << 16})
		check(err)
		return theirs{db}
	}
	db, err := terrace.Open(directory, &terrace.Options{WriteBufferSize: 1 << 16})
	check(err)
	return ours{db}
}

func keyOf(number int) []byte { return fmt.Appendf(nil, "k%02d", number%slots) }

func valueOf(number int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d ", number), number*37%200+1)
}

// entriesOf returns the entries of a state, in key order.
func entriesOf(state int) (entries []operation) {
	if state == 0 {
		return nil
	}
	oldest := max(1, state-live+1)
	for slot := range slots {
		if number := oldest + ((slot-oldest)%slots+slots)%slots; number <= state {
			entries = append(entries, operation{keyOf(number), valueOf(number)})
		}
	}
	return append(entries, operation{[]byte("state"), strconv.AppendInt(nil, int64(state), 10)})
}

// readState reads all entries, and returns the number of their state.
func readState(it cursor) (state int) {
	defer it.Release()
	var found []operation
	for it.Next() {
		found = append(found, operation{bytes.Clone(it.Key()), bytes.Clone(it.Value())})
	}
	check(it.Error())
	if len(found) > 0 {
		state, _ = strconv.Atoi(string(found[len(found)-1].value))
	}
	expected := entriesOf(state)
	for i := range max(len(found), len(expected)) {
		if i >= len(found) || i >= len(expected) || !bytes.Equal(found[i].key, expected[i].key) ||
			!bytes.Equal(found[i].value, expected[i].value) {
			log.Fatalf("no state %d: %q", state, found)
		}
	}
	return state
}

// lastOf returns the last number of the ledger, or 0.
func lastOf(ledger string) int {
	file, err := os.Open(ledger)
	if os.IsNotExist(err) {
		return 0
	}
	check(err)
	defer func() { _ = file.Close() }() // only read
	status, err := file.Stat()
	check(err)
	end := status.Size() / recordSize * recordSize
	if end == 0 {
		return 0
	}
	record := make([]byte, recordSize)
	_, err = file.ReadAt(record, end-recordSize)
	check(err)
	number, err := strconv.Atoi(string(record[:recordSize-1]))
	check(err)
	return number
}

func writeStates(db writer, directory string, duration time.Duration) {
	ledger := directory + ".ledger"
	state := readState(db.cursor())
	if state < lastOf(ledger) {
		log.Fatalf("state %d is older than the ledger", state)
	}
	file, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	check(err)
	for start := time.Now(); time.Since(start) < duration; {
		state++
		check(db.write([]operation{
			{[]byte("state"), strconv.AppendInt(nil, int64(state), 10)},
			{keyOf(state), valueOf(state)},
			{keyOf(state + live), nil},
		}))
		_, err = fmt.Fprintf(file, "%08d\n", state)
		check(err)
	}
	check(db.Close())
}

func follow(directory string) {
	db, err := terrace.OpenFollower(directory, 10*time.Millisecond, nil)
	check(err)
	reads, state := 0, 0
	for isLast := false; !isLast; reads++ {
		_, err := os.Stat(directory + ".stop")
		isLast = err == nil
		atLeast := state
		if reads%2 == 0 || isLast {
			atLeast = max(state, lastOf(directory+".ledger"))
			_, err = db.CatchUp()
			check(err)
		}
		if state = readState(db.NewIterator(nil)); state < atLeast {
			log.Fatalf("state %d is older than %d", state, atLeast)
		}
	}
	fmt.Println(reads, state)
	check(db.Close())
}
