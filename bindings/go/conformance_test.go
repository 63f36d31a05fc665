package terrace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestConformance runs the cases that all bindings share. Their grammar is in bindings/conformance.
func TestConformance(t *testing.T) {
	directory := os.Getenv("TERRACE_CONFORMANCE")
	if directory == "" {
		directory = "../conformance"
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Skipf("NOT TESTED: conformance: no cases in %s", directory)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range parseCases(filepath.Base(file), string(text)) {
			t.Run(c.name, c.run)
		}
	}
}

// conformanceCase is a case with its lines, which begin with file and line number.
type conformanceCase struct {
	name  string
	lines []conformanceLine
}

type conformanceLine struct {
	place string
	words []string
}

func parseCases(file, text string) (cases []conformanceCase) {
	for number, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case words[0] == "case":
			cases = append(cases, conformanceCase{name: words[1]})
		default:
			last := &cases[len(cases)-1]
			last.lines = append(last.lines, conformanceLine{fmt.Sprintf("%s:%d", file, number+1), words})
		}
	}
	return cases
}

func (c conformanceCase) run(t *testing.T) {
	r := &conformanceRun{parent: t.TempDir(), snapshots: map[string]*Snapshot{}, iterators: map[string]*Iterator{}}
	lines := c.lines
	if lines[0].words[0] == "requires" {
		for _, feature := range lines[0].words[1:] {
			if feature != "small-disk" {
				continue // The API has all other features.
			}
			if r.parent = os.Getenv("TERRACE_SMALL_DISK"); r.parent == "" {
				fmt.Printf("NOT TESTED: %s: no small disk\n", c.name)
				t.Skip()
			}
		}
		lines = lines[1:]
	}
	r.path = filepath.Join(r.parent, c.name)
	defer os.RemoveAll(r.path)
	defer r.close()
	for i := 0; i < len(lines); i++ {
		step := lines[i]
		expected := "ok"
		if i+1 < len(lines) && isResult(lines[i+1].words[0]) {
			i++
			expected = strings.Join(lines[i].words, " ")
		}
		if found := r.step(step.words); !found.matches(expected) {
			t.Fatalf("%s: %s: found %v, expected %s", step.place, strings.Join(step.words, " "), found, expected)
		}
	}
}

func isResult(word string) bool {
	switch word {
	case "expect", "count", "missing", "error":
		return true
	}
	return false
}

// conformanceRun is the state of a running case.
type conformanceRun struct {
	parent, path string
	db           *DB
	snapshots    map[string]*Snapshot
	iterators    map[string]*Iterator
}

// found is the result of a step: an error, or words, or nothing.
type found struct {
	err   error
	words []string
	none  bool // a value or an entry is missing
}

func (f found) matches(expected string) bool {
	words := strings.Fields(expected)
	switch words[0] {
	case "ok":
		return f.err == nil
	case "missing":
		return f.err == nil && f.none
	case "count":
		return f.err == nil && strconv.Itoa(len(f.words)) == words[1]
	case "error":
		if f.err == nil || kindOf(f.err) != words[1] {
			return false
		}
		for _, word := range words[2:] {
			if !strings.Contains(f.err.Error(), word) {
				return false
			}
		}
		return true
	}
	if f.err != nil || f.none || len(f.words) != len(words)-1 {
		return false
	}
	for i, word := range words[1:] {
		if f.words[i] != canonicalWord(word) {
			return false
		}
	}
	return true
}

// kindOf returns the conformance name of an error's kind.
func kindOf(err error) string {
	kinds := map[error]string{ErrClosed: "closed", ErrReleased: "closed", Locked: "locked", Corruption: "corruption",
		IO: "io", InvalidArgument: "invalid", NotFound: "invalid", NotSupported: "unsupported"}
	for kind, name := range kinds {
		if errors.Is(err, kind) {
			return name
		}
	}
	return err.Error()
}

// decodeWord returns the bytes of a word.
func decodeWord(word string) []byte {
	if word == `""` {
		return []byte{}
	}
	text, times, isRepeated := strings.Cut(word, "*")
	count := 1
	if isRepeated {
		count, _ = strconv.Atoi(times)
	}
	var decoded []byte
	for len(text) > 0 {
		if strings.HasPrefix(text, `\x`) {
			b, _ := hex.DecodeString(text[2:4])
			decoded, text = append(decoded, b...), text[4:]
			continue
		}
		decoded, text = append(decoded, text[0]), text[1:]
	}
	return bytes.Repeat(decoded, count)
}

// canonicalWord returns a word of the text form, or an entry of two words, with equal forms for equal bytes.
func canonicalWord(word string) string {
	key, value, isEntry := strings.Cut(word, "=")
	if !isEntry {
		return fmt.Sprintf("%q", decodeWord(key))
	}
	return entryWord(decodeWord(key), decodeWord(value))
}

func entryWord(key, value []byte) string { return fmt.Sprintf("%q=%q", key, value) }

func (r *conformanceRun) close() {
	if r.db != nil {
		_ = r.db.Close() // A second close is an error that the cases ignore.
	}
}

func (r *conformanceRun) step(words []string) found {
	switch arguments := words[1:]; words[0] {
	case "open":
		return found{err: r.open(arguments)}
	case "close":
		err := r.db.Close()
		if err == ErrClosed {
			err = nil
		}
		return found{err: err}
	case "put", "delete", "batch", "fill", "delete-range", "compact":
		return found{err: r.write(words[0], arguments)}
	case "get":
		return r.get(arguments)
	case "get-many":
		return r.getMany(arguments)
	case "scan":
		return r.scan(arguments)
	case "snapshot":
		snapshot, err := r.db.Snapshot()
		r.snapshots[arguments[0]] = snapshot
		return found{err: err}
	case "release":
		r.release(arguments[0])
		return found{}
	case "iterator":
		r.iterators[arguments[0]] = r.iterator(nil, arguments[1:])
		return found{}
	case "first", "last", "seek", "next", "prev":
		return move(words[0], r.iterators[arguments[0]], arguments[1:])
	case "repair":
		_, err := Repair(r.path, nil, false)
		return found{err: err}
	case "destroy":
		return found{err: Destroy(r.path, nil)}
	case "damage", "truncate", "remove":
		return found{err: r.changeFiles(words[0], arguments)}
	case "protect":
		return found{err: remount(r.parent, "ro")}
	case "unprotect":
		return found{err: remount(r.parent, "rw")}
	}
	return found{err: fmt.Errorf("unknown step %s", words[0])}
}

func (r *conformanceRun) open(arguments []string) error {
	options := &Options{}
	switch strings.Join(arguments, " ") {
	case "existing":
		options.ErrorIfMissing = true
	case "new":
		options.ErrorIfExists = true
	case "read-only":
		options.ReadOnly = true
	}
	db, err := Open(r.path, options)
	if err == nil {
		r.db = db
	}
	return err
}

func (r *conformanceRun) write(step string, arguments []string) error {
	var options *WriteOptions
	if last := len(arguments) - 1; last >= 0 && arguments[last] == "sync" {
		options, arguments = Sync, arguments[:last]
	}
	switch step {
	case "put":
		return r.db.Put(decodeWord(arguments[0]), decodeWord(arguments[1]), options)
	case "delete":
		return r.db.Delete(decodeWord(arguments[0]), options)
	case "delete-range":
		return r.db.DeleteRange(decodeWord(arguments[0]), decodeWord(arguments[1]))
	case "compact":
		if err := r.db.Flush(); err != nil {
			return err
		}
		return r.db.CompactRange(nil, nil)
	case "fill":
		count, _ := strconv.Atoi(arguments[0])
		size, _ := strconv.Atoi(arguments[1])
		for i := range count {
			if err := r.db.Put(fmt.Appendf(nil, "k%08d", i), bytes.Repeat([]byte("v"), size), nil); err != nil {
				return err
			}
		}
		return nil
	}
	var batch Batch
	for _, operation := range arguments {
		key, value, _ := strings.Cut(operation[1:], "=")
		if operation[0] == '+' {
			batch.Put(decodeWord(key), decodeWord(value))
		} else {
			batch.Delete(decodeWord(key))
		}
	}
	return r.db.Write(&batch, nil)
}

func (r *conformanceRun) get(arguments []string) found {
	get := r.db.Get
	if len(arguments) == 3 {
		get = r.snapshots[arguments[2]].Get
	}
	value, err := get(decodeWord(arguments[0]))
	if err == ErrNotFound {
		return found{none: true}
	}
	return found{err: err, words: []string{fmt.Sprintf("%q", value)}}
}

func (r *conformanceRun) getMany(arguments []string) (f found) {
	var keys [][]byte
	for _, word := range arguments {
		keys = append(keys, decodeWord(word))
	}
	values, err := r.db.GetMany(keys)
	for i, value := range values {
		if value == nil {
			f.words = append(f.words, fmt.Sprintf("%q", keys[i]))
		} else {
			f.words = append(f.words, entryWord(keys[i], value))
		}
	}
	f.err = err
	return f
}

// iterator creates an iterator; the arguments may end with a snapshot.
func (r *conformanceRun) iterator(options *IterOptions, arguments []string) *Iterator {
	if n := len(arguments); n >= 2 && arguments[n-2] == "at" {
		return r.snapshots[arguments[n-1]].NewIterator(options)
	}
	return r.db.NewIterator(options)
}

func (r *conformanceRun) scan(arguments []string) (f found) {
	options, isReverse, limit := &IterOptions{}, false, -1
	for i := 0; i < len(arguments); i++ {
		switch word := arguments[i]; word {
		case "reverse":
			isReverse = true
			continue
		case "from":
			options.Start = decodeWord(arguments[i+1])
		case "to":
			options.Limit = decodeWord(arguments[i+1])
		case "prefix":
			options.Prefix = decodeWord(arguments[i+1])
		case "limit":
			limit, _ = strconv.Atoi(arguments[i+1])
		}
		i++
	}
	it := r.iterator(options, arguments)
	defer it.Release()
	move, next := it.First, it.Next
	if isReverse {
		move, next = it.Last, it.Prev
	}
	for limit != len(f.words) && move() {
		f.words = append(f.words, entryWord(it.Key(), it.Value()))
		move = next
	}
	f.err = it.Error()
	return f
}

func (r *conformanceRun) release(name string) {
	if snapshot := r.snapshots[name]; snapshot != nil {
		snapshot.Release()
	}
	if it := r.iterators[name]; it != nil {
		it.Release()
	}
}

func move(step string, it *Iterator, arguments []string) found {
	moved := false
	switch step {
	case "first":
		moved = it.First()
	case "last":
		moved = it.Last()
	case "next":
		moved = it.Next()
	case "prev":
		moved = it.Prev()
	case "seek":
		moved = it.Seek(decodeWord(arguments[0]))
	}
	if !moved {
		return found{err: it.Error(), none: true}
	}
	return found{words: []string{entryWord(it.Key(), it.Value())}}
}

// changeFiles damages, truncates or removes the files whose names end in the first argument.
func (r *conformanceRun) changeFiles(step string, arguments []string) error {
	files, err := filepath.Glob(filepath.Join(r.path, "*"+arguments[0]))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no file *%s", arguments[0])
	}
	for _, file := range files {
		switch step {
		case "remove":
			err = errors.Join(err, os.Remove(file))
		case "truncate":
			length, _ := strconv.ParseInt(arguments[1], 10, 64)
			err = errors.Join(err, os.Truncate(file, length))
		case "damage":
			contents, readErr := os.ReadFile(file)
			offset, _ := strconv.Atoi(arguments[1])
			if offset < 0 {
				offset += len(contents)
			}
			contents[offset] ^= 0xff
			err = errors.Join(err, readErr, os.WriteFile(file, contents, 0o644))
		}
	}
	return err
}

func remount(path, mode string) error {
	return exec.Command("mount", "-o", "remount,"+mode, path).Run()
}
