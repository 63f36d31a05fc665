package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// maxLine is the maximum length of a command, in bytes.
const maxLine = 16 << 20

// takeTurn opens the database in dir and obeys the commands on the standard input, for the attacks `alternate` and `followers`.
// harness/alternate/engine_process.rs describes them. At the end of the input it returns without a close.
func takeTurn(dir string, writeBuffer string) error {
	// A write beyond the limit on the size of files must fail instead of ending the process.
	signal.Ignore(syscall.SIGXFSZ)
	size, err := strconv.Atoi(writeBuffer)
	if err != nil {
		return err
	}
	output := bufio.NewWriter(os.Stdout)
	db, err := leveldb.OpenFile(dir, &opt.Options{Filter: filter.NewBloomFilter(10), WriteBuffer: size})
	answer(output, err)
	if err != nil {
		return err
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, maxLine)
	for input.Scan() {
		words := strings.Fields(input.Text())
		switch words[0] {
		case "read":
			answer(output, readAll(db, output))
		case "write":
			answer(output, write(db, words[1] == "sync", words[2:]))
		case "batch":
			answer(output, writeEncoded(db, words[1]))
		case "compact":
			// A compaction that fails is no loss of data.
			_ = db.CompactRange(util.Range{})
			answer(output, nil)
		default:
			answer(output, db.Close())
			return nil
		}
	}
	return fmt.Errorf("the input ended before a close")
}

func answer(output *bufio.Writer, err error) {
	if err == nil {
		fmt.Fprintln(output, "ok")
	} else {
		fmt.Fprintln(output, "error", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	output.Flush()
}

func readAll(db *leveldb.DB, output *bufio.Writer) error {
	cursor := db.NewIterator(nil, nil)
	defer cursor.Release()
	for cursor.Next() {
		hash := fnv.New64a()
		hash.Write(cursor.Value())
		fmt.Fprintf(output, "%s %d %x\n", cursor.Key(), len(cursor.Value()), hash.Sum64())
	}
	return cursor.Error()
}

func write(db *leveldb.DB, sync bool, words []string) error {
	batch := new(leveldb.Batch)
	for len(words) > 0 {
		if words[0] == "put" {
			length, err := strconv.Atoi(words[2])
			if err != nil {
				return err
			}
			batch.Put([]byte(words[1]), value(length, words[3]))
			words = words[4:]
		} else {
			batch.Delete([]byte(words[1]))
			words = words[2:]
		}
	}
	return db.Write(batch, &opt.WriteOptions{Sync: sync})
}

// writeEncoded writes the operations of a batch in LevelDB's format, in hexadecimal.
func writeEncoded(db *leveldb.DB, encoded string) error {
	bytes, err := hex.DecodeString(encoded)
	if err != nil {
		return err
	}
	batch := new(leveldb.Batch)
	if err := batch.Load(bytes); err != nil {
		return err
	}
	return db.Write(batch, nil)
}

// value returns the first length bytes of the repeated pattern.
func value(length int, pattern string) []byte {
	return []byte(strings.Repeat(pattern, length/len(pattern)+1))[:length]
}
