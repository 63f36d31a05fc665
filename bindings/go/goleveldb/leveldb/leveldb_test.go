package leveldb_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/comparer"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o *opt.Options) (*leveldb.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := leveldb.OpenFile(path, o)
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db, path
}

// Programs compare these errors with ==.
func TestErrors(t *testing.T) {
	db, path := open(t, nil)
	_, err := db.Get([]byte("missing"), nil)
	expect(t, "missing key", err, leveldb.ErrNotFound)
	_, err = leveldb.OpenFile(path, nil)
	if !errors.Is(err, syscall.EAGAIN) || !errors.Is(err, storage.ErrLocked) {
		t.Errorf("second opener: %v", err)
	}
	it := db.NewIterator(nil, nil)
	it.Release()
	it.Next()
	expect(t, "iterator", it.Error(), leveldb.ErrIterReleased)
	snapshot, err := db.GetSnapshot()
	check(t, err)
	snapshot.Release()
	_, err = snapshot.Get(nil, nil)
	expect(t, "snapshot", err, leveldb.ErrSnapshotReleased)
	expect(t, "iterator of a snapshot", snapshot.NewIterator(nil, nil).Error(), leveldb.ErrSnapshotReleased)

	check(t, db.SetReadOnly())
	expect(t, "put", db.Put(nil, nil, nil), leveldb.ErrReadOnly)
	_, err = db.OpenTransaction()
	expect(t, "transaction", err, leveldb.ErrReadOnly)
	check(t, db.Close())
	expect(t, "second close", db.Close(), leveldb.ErrClosed)
	_, err = db.Get(nil, nil)
	expect(t, "get", err, leveldb.ErrClosed)
	expect(t, "new iterator", db.NewIterator(nil, nil).Error(), leveldb.ErrClosed)
	_, err = db.GetSnapshot()
	expect(t, "new snapshot", err, leveldb.ErrClosed)

	_, err = leveldb.OpenFile(path, &opt.Options{ErrorIfExist: true})
	expect(t, "existing", err, os.ErrExist)
	missing := filepath.Join(t.TempDir(), "missing")
	_, err = leveldb.OpenFile(missing, &opt.Options{ErrorIfMissing: true})
	expect(t, "missing", err, os.ErrNotExist)
	if _, err = leveldb.OpenFile(missing+"2", &opt.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing, read-only: %v", err)
	}
	db, err = leveldb.OpenFile(path, &opt.Options{ReadOnly: true})
	check(t, err)
	expect(t, "put", db.Put(nil, nil, nil), leveldb.ErrReadOnly)
	check(t, db.Close())
}

func expect(t *testing.T, what string, err, expected error) {
	t.Helper()
	if err != expected {
		t.Errorf("%s: %v, expected %v", what, err, expected)
	}
}

type foreignStorage struct{ storage.Storage }

type foreignFilter struct{ filter.Filter }

func (foreignFilter) Name() string { return "foreign.Filter" }

type foreignOrder struct{ comparer.Comparer }

func (foreignOrder) Name() string { return "foreign.Order" }

// A request that the engine cannot fulfil fails at the open, with a sentence that names it.
func TestUnsupportedRequests(t *testing.T) {
	_, err := leveldb.Open(foreignStorage{storage.NewMemStorage()}, nil)
	expectText(t, err, "foreignStorage", "OpenFile")
	_, err = leveldb.Open(storage.NewMemStorage(), &opt.Options{Filter: foreignFilter{}})
	expectText(t, err, "foreign.Filter", "NewBloomFilter")
	_, err = leveldb.Open(storage.NewMemStorage(), &opt.Options{Comparer: foreignOrder{comparer.DefaultComparer}})
	expectText(t, err, "foreign.Order", "DefaultComparer")
}

func expectText(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not contain %s", err, word)
		}
	}
}

// A damaged table is an ErrCorrupted that names the file, and RecoverFile keeps the other entries.
func TestCorruption(t *testing.T) {
	db, path := open(t, &opt.Options{Compression: opt.NoCompression})
	for i := range 2000 {
		check(t, db.Put(fmt.Appendf(nil, "k%04d", i), bytes.Repeat([]byte("v"), 100), nil))
	}
	check(t, db.CompactRange(util.Range{}))
	check(t, db.Close())
	tables, err := filepath.Glob(filepath.Join(path, "*.ldb"))
	check(t, err)
	contents, err := os.ReadFile(tables[0])
	check(t, err)
	contents[100] ^= 1
	check(t, os.WriteFile(tables[0], contents, 0o644))

	db, err = leveldb.OpenFile(path, nil)
	check(t, err)
	_, err = db.Get([]byte("k0000"), nil)
	var corrupted *lerrors.ErrCorrupted
	if !lerrors.IsCorrupted(err) || !errors.As(err, &corrupted) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
		t.Errorf("get: %v", err)
	}
	check(t, db.Close())
	db, err = leveldb.RecoverFile(path, nil)
	check(t, err)
	defer db.Close()
	if entries := count(t, db); entries < 1500 || entries == 2000 {
		t.Errorf("%d entries after the repair", entries)
	}
}

func count(t *testing.T, reader leveldb.Reader) (entries int) {
	t.Helper()
	it := reader.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		entries++
	}
	check(t, it.Error())
	return entries
}

// Writers wait for the end of a transaction, which a Close is, too.
func TestTransactionExcludesWriters(t *testing.T) {
	for _, end := range []string{"commit", "discard", "close"} {
		db, _ := open(t, nil)
		check(t, db.Put([]byte("a"), []byte("1"), nil))
		transaction, err := db.OpenTransaction()
		check(t, err)
		check(t, transaction.Put([]byte("b"), []byte("2"), nil))
		batch := leveldb.MakeBatch(100)
		batch.Put([]byte("c"), []byte("3"))
		batch.Delete([]byte("a"))
		check(t, transaction.Write(batch, nil))
		if entries := count(t, transaction); entries != 2 {
			t.Errorf("%s: the transaction has %d entries", end, entries)
		}
		if entries := count(t, db); entries != 1 {
			t.Errorf("%s: others see %d entries", end, entries)
		}
		var group sync.WaitGroup
		written := make(chan error, 1)
		group.Add(1)
		go func() {
			defer group.Done()
			written <- db.Put([]byte("d"), nil, nil)
		}()
		select {
		case err := <-written:
			t.Errorf("%s: a write did not wait: %v", end, err)
		default:
		}
		var expected error
		switch end {
		case "commit":
			check(t, transaction.Commit())
		case "discard":
			transaction.Discard()
		case "close":
			check(t, db.Close())
			expected = leveldb.ErrClosed
		}
		group.Wait()
		expect(t, end, <-written, expected)
		if err := transaction.Commit(); err == nil {
			t.Errorf("%s: a second end succeeds", end)
		}
		transaction.Discard()
		if entries, expected := map[string]int{"commit": 3, "discard": 2}, end != "close"; expected && count(t, db) != entries[end] {
			t.Errorf("%s: %d entries", end, count(t, db))
		}
	}
}

func TestBatchDump(t *testing.T) {
	var batch, loaded, replayed leveldb.Batch
	batch.Put([]byte("k"), []byte("value"))
	batch.Delete([]byte("d"))
	// goleveldb's form: kind, length, key, and for a put length and value.
	if dump := string(batch.Dump()); dump != "\x01\x01k\x05value\x00\x01d" {
		t.Errorf("%q", dump)
	}
	check(t, loaded.Load(batch.Dump()))
	check(t, loaded.Replay(&replayed))
	if !bytes.Equal(replayed.Dump(), batch.Dump()) || loaded.Len() != 2 {
		t.Errorf("%q", replayed.Dump())
	}
	if err := loaded.Load([]byte("\x01\x09k")); !lerrors.IsCorrupted(err) {
		t.Errorf("%v", err)
	}
}

func TestStats(t *testing.T) {
	db, _ := open(t, &opt.Options{WriteBuffer: 256 * opt.KiB})
	for i := range 20_000 {
		check(t, db.Put(fmt.Appendf(nil, "k%09d", i*7919%20_000), bytes.Repeat([]byte{byte(i)}, 200), nil))
	}
	check(t, db.CompactRange(util.Range{}))
	it := db.NewIterator(nil, nil)
	defer it.Release()
	var s leveldb.DBStats
	check(t, db.Stats(&s))
	if s.LevelSizes.Sum() == 0 || s.MemComp == 0 || s.Level0Comp == 0 || s.IOWrite == 0 || s.OpenedTablesCount == 0 ||
		s.AliveIterators != 1 || len(s.LevelDurations) != len(s.LevelTablesCounts) {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"stats", "compcount", "iostats", "writedelay", "sstables", "blockpool", "cachedblock", "openedtables",
		"alivesnaps", "aliveiters", "num-files-at-level0"} {
		if text, err := db.GetProperty("leveldb." + name); err != nil || text == "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	_, err := db.GetProperty("leveldb.unknown")
	expect(t, "unknown property", err, leveldb.ErrNotFound)
	sizes, err := db.SizeOf([]util.Range{{Start: nil, Limit: []byte("k000010000")}, {Start: []byte("x"), Limit: []byte("y")}})
	if err != nil || sizes[0] == 0 || sizes[1] != 0 {
		t.Errorf("%v, %v", sizes, err)
	}
}

// A place in memory keeps its database between two opens.
func TestMemory(t *testing.T) {
	stor := storage.NewMemStorage()
	for round := range 3 {
		db, err := leveldb.Open(stor, &opt.Options{Filter: filter.NewBloomFilter(10)})
		check(t, err)
		if entries := count(t, db); entries != round {
			t.Errorf("round %d: %d entries", round, entries)
		}
		check(t, db.Put([]byte{byte(round)}, nil, &opt.WriteOptions{Sync: true}))
		check(t, db.Close())
	}
	check(t, stor.Close())
	_, err := leveldb.Open(stor, nil)
	expect(t, "closed storage", err, storage.ErrClosed)
}

func TestPrefixRange(t *testing.T) {
	db, _ := open(t, nil)
	keys := []string{"a", "ab", "ab\xff", "ab\xff\xff1", "ac", "\xff", "\xff\xff"}
	for _, key := range keys {
		check(t, db.Put([]byte(key), []byte(key), nil))
	}
	for prefix, expected := range map[string]string{"ab": "ab,ab\xff,ab\xff\xff1", "ab\xff": "ab\xff,ab\xff\xff1",
		"\xff": "\xff,\xff\xff", "x": "", "a": "a,ab,ab\xff,ab\xff\xff1,ac"} {
		if found := join(db.NewIterator(util.BytesPrefix([]byte(prefix)), nil)); found != expected {
			t.Errorf("prefix %q: %q", prefix, found)
		}
	}
}

func join(it iterator.Iterator) string {
	defer it.Release()
	var keys []string
	for it.Next() {
		keys = append(keys, string(it.Key()))
	}
	return strings.Join(keys, ",")
}

// RecoverFile creates a missing database, and an open for reads does not.
func TestDirectoriesWithoutDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "db")
	db, err := leveldb.RecoverFile(path, nil)
	check(t, err)
	check(t, db.Put([]byte("a"), nil, nil))
	check(t, db.Close())
	db, err = leveldb.RecoverFile(path, nil)
	check(t, err)
	if entries := count(t, db); entries != 1 {
		t.Errorf("%d entries", entries)
	}
	check(t, db.Close())
	_, err = leveldb.OpenFile(t.TempDir(), &opt.Options{ReadOnly: true})
	expect(t, "read-only", err, os.ErrNotExist)
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o644))
	if _, err = leveldb.OpenFile(file, nil); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
}
