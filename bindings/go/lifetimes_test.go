package terrace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// openDB opens a new database, which the end of the test closes.
func openDB(t testing.TB) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// check fails the test after an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expectError(t testing.TB, what string, err, expected error) {
	t.Helper()
	if !errors.Is(err, expected) {
		t.Errorf("%s: %v, expected %v", what, err, expected)
	}
}

func fill(t testing.TB, db *DB, count int) {
	t.Helper()
	var batch Batch
	for i := range count {
		batch.Put(fmt.Appendf(nil, "k%06d", i), fmt.Appendf(nil, "v%d", i))
	}
	check(t, db.Write(&batch, nil))
}

// Each method of each type returns ErrClosed after the end of the database.
func TestUseAfterClose(t *testing.T) {
	db := openDB(t)
	fill(t, db, 1000)
	it, backward := db.NewIterator(nil), db.NewIterator(nil)
	snapshot, err := db.Snapshot()
	check(t, err)
	txn, err := db.Begin(nil)
	check(t, err)
	check(t, txn.Put([]byte("a"), nil))
	if !it.Next() || !it.Next() || !backward.Last() {
		t.Fatal(it.Error())
	}
	check(t, db.Close())

	key, batch := []byte("key"), &Batch{}
	batch.Put(key, key)
	_, get := db.Get(key)
	_, has := db.Has(key)
	_, many := db.GetMany([][]byte{key})
	_, stats := db.Stats()
	_, property := db.Property("leveldb.stats")
	_, size := db.ApproximateSize(key, nil)
	_, catchUp := db.CatchUp()
	_, checkpoint := db.Checkpoint(filepath.Join(t.TempDir(), "copy"))
	_, begin := db.Begin(nil)
	_, newSnapshot := db.Snapshot()
	_, snapshotGet := snapshot.Get(key)
	_, txnGet := txn.Get(key)
	results := map[string]error{
		"Get": get, "Has": has, "GetMany": many, "Stats": stats, "Property": property, "ApproximateSize": size,
		"CatchUp": catchUp, "Checkpoint": checkpoint, "Begin": begin, "Snapshot": newSnapshot,
		"Put": db.Put(key, key, nil), "Delete": db.Delete(key, nil), "Write": db.Write(batch, nil),
		"DeleteRange": db.DeleteRange(key, nil), "CompactRange": db.CompactRange(nil, nil), "Flush": db.Flush(),
		"Sync": db.Sync(), "Close": db.Close(), "Update": db.Update(nil, func(*Txn) error { return nil }),
		"Snapshot.Get": snapshotGet, "Txn.Get": txnGet, "Txn.Put": txn.Put(key, key), "Txn.Commit": txn.Commit(),
	}
	for name, err := range results {
		expectError(t, name, err, ErrClosed)
	}
	iterators := map[string]*Iterator{"next": it, "prev": backward, "new": db.NewIterator(nil),
		"snapshot": snapshot.NewIterator(nil), "txn": txn.NewIterator(nil)}
	moves := map[string]func(*Iterator) bool{"next": (*Iterator).Next, "prev": (*Iterator).Prev}
	for name, it := range iterators {
		move := moves[name]
		if move == nil {
			move = (*Iterator).First
		}
		if move(it) || it.Valid() || it.Key() != nil || it.Value() != nil {
			t.Errorf("iterator %s continues after the close", name)
		}
		expectError(t, "iterator "+name, it.Error(), ErrClosed)
		it.Release()
		it.Release()
	}
	snapshot.Release()
	txn.Rollback()
}

// Released objects say so, as long as their database is open.
func TestUseAfterRelease(t *testing.T) {
	db := openDB(t)
	fill(t, db, 10)
	it := db.NewIterator(nil)
	it.Next()
	it.Release()
	if it.Next() || it.Key() != nil {
		t.Error("a released iterator continues")
	}
	expectError(t, "iterator", it.Error(), ErrReleased)

	snapshot, err := db.Snapshot()
	check(t, err)
	it = snapshot.NewIterator(nil)
	snapshot.Release()
	snapshot.Release()
	_, err = snapshot.Get([]byte("k000001"))
	expectError(t, "snapshot", err, ErrReleased)
	if !it.Next() || string(it.Key()) != "k000000" {
		t.Error("the iterator of a released snapshot has ended")
	}

	txn, err := db.Begin(nil)
	check(t, err)
	check(t, txn.Commit())
	expectError(t, "txn", txn.Put(nil, nil), ErrReleased)
	expectError(t, "txn", txn.Commit(), ErrReleased)
	stats, err := db.Stats()
	check(t, err)
	if stats.Iterators != 1 || stats.Snapshots != 0 || stats.Transactions != 0 {
		t.Errorf("%d iterators, %d snapshots, %d transactions are open", stats.Iterators, stats.Snapshots, stats.Transactions)
	}
}

// Goroutines that use everything see only ErrClosed after a Close in the middle.
func TestCloseBesideGoroutines(t *testing.T) {
	for round := range 20 {
		db := openDB(t)
		fill(t, db, 2000)
		var group sync.WaitGroup
		var calls atomic.Int64
		for goroutine := range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := 0; ; i++ {
					err := useDB(db, goroutine, i)
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
					calls.Add(1)
				}
			}()
		}
		for calls.Load() < 200 {
			time.Sleep(time.Millisecond)
		}
		check(t, db.Close())
		group.Wait()
	}
}

// useDB makes some calls of each kind.
func useDB(db *DB, goroutine, i int) error {
	key := fmt.Appendf(nil, "k%06d", i%2000)
	switch goroutine {
	case 0:
		return db.Put(key, fmt.Appendf(nil, "%d", i), nil)
	case 1:
		_, err := db.Get(key)
		return err
	case 2:
		it := db.NewIterator(&IterOptions{Start: key})
		defer it.Release()
		for it.Next() {
		}
		return it.Error()
	}
	snapshot, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Release()
	if _, err = snapshot.Get(key); err != nil {
		return err
	}
	return db.Update(nil, func(txn *Txn) error { return txn.Put([]byte("txn"), key) })
}

// collect runs the garbage collector until done, for at most ten seconds.
func collect(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s: not freed by the garbage collector", what)
}

// residentBytes returns the memory of the process.
func residentBytes(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	check(t, err)
	var total, resident int
	_, err = fmt.Sscan(string(text), &total, &resident)
	check(t, err)
	return resident * os.Getpagesize()
}

// Forgotten iterators, snapshots and transactions do not stay in the engine.
func TestForgottenObjects(t *testing.T) {
	db := openDB(t)
	fill(t, db, 100)
	forget := func() {
		for range 100_000 {
			if it := db.NewIterator(nil); !it.Next() {
				t.Fatal(it.Error())
			}
		}
	}
	forget()
	runtime.GC()
	before := residentBytes(t)
	forget()
	if growth := residentBytes(t) - before; growth > 64<<20 {
		t.Errorf("100,000 forgotten iterators need %d bytes", growth)
	}
	for range 100 {
		_, err := db.Snapshot()
		check(t, err)
		_, err = db.Begin(nil)
		check(t, err)
	}
	collect(t, "iterators, snapshots, transactions", func() bool {
		stats, err := db.Stats()
		check(t, err)
		return stats.Iterators+stats.Snapshots+stats.Transactions == 0
	})
}

// A forgotten database is closed, so that another opener succeeds.
func TestForgottenDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	func() {
		db, err := Open(path, nil)
		check(t, err)
		check(t, db.Put([]byte("a"), []byte("1"), nil))
		_, err = Open(path, nil)
		expectError(t, "second opener", err, Locked)
	}()
	collect(t, "database", func() bool {
		db, err := Open(path, nil)
		if err != nil {
			expectError(t, "open", err, Locked)
			return false
		}
		defer db.Close()
		value, err := db.Get([]byte("a"))
		check(t, err)
		return string(value) == "1"
	})
}

// Programs delete the directory of an open database. goleveldb's Close reports nothing then; that of Terrace
// returned an error.
func TestRemovedDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := Open(path, nil)
	check(t, err)
	fill(t, db, 10)
	check(t, os.RemoveAll(path))
	check(t, db.Close())
	expectError(t, "second close", db.Close(), ErrClosed)
}

// A key or value of 2^31 bytes is refused by each call, and nothing is written.
func TestTooLongKeys(t *testing.T) {
	memory, err := syscall.Mmap(-1, 0, 1<<31, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skipf("NOT TESTED: keys of 2 GiB: %v", err)
	}
	defer syscall.Munmap(memory)
	db := openDB(t)
	txn, err := db.Begin(nil)
	check(t, err)
	var batch Batch
	batch.Put([]byte("a"), nil)
	batch.Put([]byte("b"), memory)
	_, get := db.Get(memory)
	_, txnGet := txn.Get(memory)
	it := db.NewIterator(nil)
	it.Seek(memory)
	results := map[string]error{
		"Put": db.Put(memory, nil, nil), "Put of a value": db.Put(nil, memory, nil), "Delete": db.Delete(memory, nil),
		"Write": db.Write(&batch, nil), "Get": get, "Txn.Put": txn.Put(memory, nil), "Txn.Get": txnGet, "Seek": it.Error(),
		"DeleteRange": db.DeleteRange(memory, nil), "CompactRange": db.CompactRange(nil, memory),
		"NewIterator": db.NewIterator(&IterOptions{Start: memory}).Error(),
	}
	for name, err := range results {
		expectError(t, name, err, InvalidArgument)
	}
	if it := db.NewIterator(nil); it.Next() {
		t.Errorf("%q was written", it.Key())
	}
}

func TestInvalidOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	for _, options := range []*Options{{Compression: "lzma"}, {CacheSize: -1}, {ErrorIfMissing: true}, {ReadOnly: true}} {
		if db, err := Open(path, options); db != nil || !errors.Is(err, InvalidArgument) {
			t.Errorf("%+v: %v", options, err)
		}
	}
	_, err := Open("a\x00b", nil)
	expectError(t, "zero byte", err, InvalidArgument)
	_, err = OpenFollower(path, -time.Second, nil)
	expectError(t, "maximum age", err, InvalidArgument)
}

// childVariable makes this test program the child of one of the tests below.
const childVariable = "TERRACE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		runChild(path)
	}
	os.Exit(m.Run())
}

// runChild writes 0, 1, 2 .. as keys and prints each after the write has returned: the ledger. It ends
// without Close after 1,000, or is killed.
func runChild(path string) {
	db, err := Open(path, nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		if err := db.Put(fmt.Appendf(nil, "%09d", i), make([]byte, 100), nil); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(i)
		if i == 999 && os.Getenv("TERRACE_TEST_EXITS") != "" {
			os.Exit(0)
		}
	}
}

// checkLedger opens the database of a child, which must contain every write that the child printed.
func checkLedger(t *testing.T, path, ledger string) {
	t.Helper()
	lines := strings.Fields(ledger[:strings.LastIndex(ledger, "\n")+1])
	db, err := Open(path, &Options{ErrorIfMissing: true})
	check(t, err)
	defer db.Close()
	for i, line := range lines {
		if fmt.Sprint(i) != line {
			t.Fatalf("the child printed %s", line)
		}
		if found, err := db.Has(fmt.Appendf(nil, "%09d", i)); err != nil || !found {
			t.Fatalf("write %d of %d is lost: %v", i, len(lines), err)
		}
	}
}

// thisProgram returns a command that starts the tests as a second process, with the emulator that an environment
// variable names: an emulator cannot start programs of its architecture.
func thisProgram() *exec.Cmd {
	words := append(strings.Fields(os.Getenv("TERRACE_EMULATOR")), os.Args[0])
	return exec.Command(words[0], words[1:]...)
}

func TestExitWithoutClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	child := thisProgram()
	child.Env = append(os.Environ(), childVariable+"="+path, "TERRACE_TEST_EXITS=1")
	ledger, err := child.Output()
	check(t, err)
	if strings.Count(string(ledger), "\n") != 1000 {
		t.Fatalf("the child ended early: %s", ledger)
	}
	checkLedger(t, path, string(ledger))
}

func TestKillUnderLoad(t *testing.T) {
	for round := range 5 {
		path := filepath.Join(t.TempDir(), fmt.Sprint(round))
		var ledger strings.Builder
		child := thisProgram()
		child.Env = append(os.Environ(), childVariable+"="+path)
		child.Stdout = &ledger
		check(t, child.Start())
		time.Sleep(time.Duration(150+50*round) * time.Millisecond)
		check(t, child.Process.Kill())
		_ = child.Wait() // The error is the signal.
		if strings.Contains(ledger.String(), "\n") {
			checkLedger(t, path, ledger.String())
		}
	}
}

// A follower sees each write of another process that returned before its catch-up.
func TestFollowerOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	child := thisProgram()
	child.Env = append(os.Environ(), childVariable+"="+path)
	output, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	defer child.Wait()         // The error is the signal.
	defer child.Process.Kill() // An error means that the child has ended.
	written := -1
	lines := bufio.NewScanner(output)
	read := func(count int) {
		for range count {
			if !lines.Scan() {
				t.Fatal("the writer has ended")
			}
			written++
		}
	}
	read(100)
	follower, err := OpenFollower(path, time.Hour, nil)
	check(t, err)
	defer follower.Close()
	for range 20 {
		read(500)
		_, err := follower.CatchUp()
		check(t, err)
		if found, err := follower.Has(fmt.Appendf(nil, "%09d", written)); err != nil || !found {
			t.Fatalf("write %d is missing: %v", written, err)
		}
	}
}
