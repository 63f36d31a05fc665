// Runs a LevelDB written in Go, for two attacks of terrace-torture.
//
//	terrace-format-readers goleveldb DIR             prints all entries, for `readers`
//	terrace-format-readers turn DIR WRITE_BUFFER     obeys commands, for `alternate`
//
// Each entry is a key and a value, each with its length in four bytes, little-endian. An error goes to standard error, and
// the program then fails.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
)

// readers are the LevelDBs of this program. Each calls emit for all entries in order.
var readers = map[string]func(dir string, emit func(key, value []byte) error) error{
	"goleveldb": readGoleveldb,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 3 && args[0] == "turn" {
		return takeTurn(args[1], args[2])
	}
	if len(args) != 2 || readers[args[0]] == nil {
		return fmt.Errorf("expected the name of a reader and a directory, got %q", args)
	}
	output := bufio.NewWriter(os.Stdout)
	emit := func(key, value []byte) error {
		if err := writeBytes(output, key); err != nil {
			return err
		}
		return writeBytes(output, value)
	}
	if err := readers[args[0]](args[1], emit); err != nil {
		return err
	}
	return output.Flush()
}

func writeBytes(output *bufio.Writer, bytes []byte) error {
	if err := binary.Write(output, binary.LittleEndian, uint32(len(bytes))); err != nil {
		return err
	}
	_, err := output.Write(bytes)
	return err
}
