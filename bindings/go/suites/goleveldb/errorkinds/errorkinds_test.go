// Package errorkinds tests the errors of goleveldb's packages. The same file is a test of the module
// `programs`, which replaces goleveldb by the packages of this binding.
package errorkinds

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// kindOf returns what a program finds out about an error.
func kindOf(err error) string {
	kinds := map[error]string{
		leveldb.ErrNotFound: "not found", leveldb.ErrClosed: "closed", leveldb.ErrReadOnly: "read-only",
		leveldb.ErrIterReleased: "released", leveldb.ErrSnapshotReleased: "released", os.ErrNotExist: "missing",
		os.ErrExist: "existing", syscall.EAGAIN: "locked",
	}
	for kind, name := range kinds {
		if errors.Is(err, kind) {
			return name
		}
	}
	switch {
	case err == nil:
		return "success"
	case lerrors.IsCorrupted(err):
		return "corrupted"
	}
	return fmt.Sprintf("%T %v", err, err)
}

// expect checks the kind of an error.
func expect(t *testing.T, situation string, err error, kind string) {
	t.Helper()
	if found := kindOf(err); found != kind {
		t.Errorf("%s: found %s, expected %s", situation, found, kind)
	}
}

func open(t *testing.T, path string, options *opt.Options) *leveldb.DB {
	t.Helper()
	db, err := leveldb.OpenFile(path, options)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func openError(path string, options *opt.Options) error {
	db, err := leveldb.OpenFile(path, options)
	if err == nil {
		err = errors.Join(errors.New("opened"), db.Close())
	}
	return err
}

func TestOpeningErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	expect(t, "missing", openError(path, &opt.Options{ErrorIfMissing: true}), "missing")
	db := open(t, path, nil)
	expect(t, "second opener", openError(path, nil), "locked")
	expect(t, "close", db.Close(), "success")
	expect(t, "existing", openError(path, &opt.Options{ErrorIfExist: true}), "existing")
	expect(t, "second close", db.Close(), "closed")
}

func TestErrorsOfCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, nil)
	_, err := db.Get([]byte("key"), nil)
	expect(t, "missing key", err, "not found")
	snapshot, err := db.GetSnapshot()
	expect(t, "snapshot", err, "success")
	snapshot.Release()
	_, err = snapshot.Get([]byte("key"), nil)
	expect(t, "released snapshot", err, "released")
	it := db.NewIterator(nil, nil)
	it.Release()
	it.Next()
	expect(t, "released iterator", it.Error(), "released")
	expect(t, "close", db.Close(), "success")
	_, err = db.Get([]byte("key"), nil)
	expect(t, "get after the close", err, "closed")
	expect(t, "put after the close", db.Put([]byte("key"), nil, nil), "closed")
	expect(t, "delete after the close", db.Delete([]byte("key"), nil), "closed")
	expect(t, "batch after the close", db.Write(new(leveldb.Batch), nil), "closed")
	expect(t, "iterator after the close", db.NewIterator(nil, nil).Error(), "closed")
	expect(t, "compaction after the close", db.CompactRange(util.Range{}), "closed")
	_, err = db.GetSnapshot()
	expect(t, "snapshot after the close", err, "closed")
	_, err = db.OpenTransaction()
	expect(t, "transaction after the close", err, "closed")

	db = open(t, path, &opt.Options{ReadOnly: true})
	expect(t, "write through a reader", db.Put([]byte("key"), nil, nil), "read-only")
	expect(t, "close of the reader", db.Close(), "success")
}

// A batch without operations is no write. A database that refuses writes cannot begin to refuse them.
func TestErrorsOfReadOnlyDatabases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, nil)
	expect(t, "first SetReadOnly", db.SetReadOnly(), "success")
	expectRefusals(t, db)
	expect(t, "close", db.Close(), "success")
	expectClosed(t, db)

	db = open(t, path, &opt.Options{ReadOnly: true})
	expectRefusals(t, db)
	expect(t, "close of the reader", db.Close(), "success")
	expectClosed(t, db)
}

func expectClosed(t *testing.T, db *leveldb.DB) {
	t.Helper()
	expect(t, "SetReadOnly after the close", db.SetReadOnly(), "closed")
	expect(t, "no batch after the close", db.Write(nil, nil), "closed")
	batch := new(leveldb.Batch)
	batch.Delete(nil)
	expect(t, "batch after the close", db.Write(batch, nil), "closed")
	expect(t, "put after the close", db.Put(nil, nil, nil), "closed")
	expect(t, "delete after the close", db.Delete(nil, nil), "closed")
	expect(t, "compaction after the close", db.CompactRange(util.Range{}), "closed")
	_, err := db.OpenTransaction()
	expect(t, "transaction after the close", err, "closed")
}

// A storage holds the lock of its directory from its own open to its close.
func TestLockedStorage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	storageError := func(readOnly bool) error {
		stor, err := storage.OpenFile(path, readOnly)
		if err == nil {
			err = stor.Close()
		}
		return err
	}
	stor, err := storage.OpenFile(path, false)
	expect(t, "storage", err, "success")
	expect(t, "second storage", storageError(false), "locked")
	expect(t, "storage for reads beside a writer", storageError(true), "locked")
	expect(t, "database beside the storage", openError(path, nil), "locked")
	db, err := leveldb.Open(stor, nil)
	expect(t, "database of the storage", err, "success")
	expect(t, "storage beside the database", storageError(false), "locked")
	expect(t, "close", db.Close(), "success")
	expect(t, "storage after the close of the database", storageError(false), "locked")
	db, err = leveldb.Open(stor, nil)
	expect(t, "database of the storage again", err, "success")
	expect(t, "close", db.Close(), "success")
	expect(t, "close of the storage", stor.Close(), "success")
	expect(t, "storage after the close", storageError(false), "success")

	// A failed open leaves no lock.
	expect(t, "existing", openError(path, &opt.Options{ErrorIfExist: true}), "existing")
	db = open(t, path, nil)
	expect(t, "storage beside a database", storageError(false), "locked")
	expect(t, "close", db.Close(), "success")
	expect(t, "storage after the close", storageError(false), "success")
	db, err = leveldb.RecoverFile(path, nil)
	expect(t, "recovery", err, "success")
	expect(t, "storage beside the recovered database", storageError(false), "locked")
	expect(t, "close", db.Close(), "success")

	// Readers share the directory.
	reader, err := storage.OpenFile(path, true)
	expect(t, "storage for reads", err, "success")
	expect(t, "second storage for reads", storageError(true), "success")
	expect(t, "storage beside a reader", storageError(false), "locked")
	expect(t, "close of the reader", reader.Close(), "success")
	expect(t, "storage after the reader", storageError(false), "success")
}

func TestBlockPool(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"), &opt.Options{DisableBufferPool: true})
	if text, err := db.GetProperty("leveldb.blockpool"); text != "<nil>" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	expect(t, "close", db.Close(), "success")
	_, err := db.GetProperty("leveldb.blockpool")
	expect(t, "blockpool of a closed database", err, "closed")
}

func expectRefusals(t *testing.T, db *leveldb.DB) {
	t.Helper()
	expect(t, "SetReadOnly again", db.SetReadOnly(), "read-only")
	batch := new(leveldb.Batch)
	expect(t, "no batch", db.Write(nil, nil), "success")
	expect(t, "empty batch", db.Write(batch, nil), "success")
	batch.Delete(nil)
	expect(t, "batch", db.Write(batch, nil), "read-only")
}

func TestFilesAtLevel(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"), nil)
	for level, expected := range map[string]string{"0": "0", "6": "0", "7": "0", "007": "0", "100": "0"} {
		count, err := db.GetProperty("leveldb.num-files-at-level" + level)
		if count != expected || err != nil {
			t.Errorf("level %s: %q, %v", level, count, err)
		}
	}
	for _, level := range []string{"", "x", "7x", "-1"} {
		_, err := db.GetProperty("leveldb.num-files-at-level" + level)
		expect(t, "level "+level, err, "not found")
	}
	_, err := db.GetProperty("num-files-at-level0")
	expect(t, "level without the prefix", err, "not found")
	expect(t, "close", db.Close(), "success")
	_, err = db.GetProperty("leveldb.num-files-at-level7")
	expect(t, "level of a closed database", err, "closed")
}

// Programs compare this error with ==.
func TestLockedMemory(t *testing.T) {
	stor := storage.NewMemStorage()
	db, err := leveldb.Open(stor, nil)
	expect(t, "open", err, "success")
	for range 2 {
		if _, err = leveldb.Open(stor, nil); err != storage.ErrLocked {
			t.Errorf("second opener: %v", err)
		}
		if _, err = leveldb.Recover(stor, nil); err != storage.ErrLocked {
			t.Errorf("recovery beside an opener: %v", err)
		}
	}
	expect(t, "close", db.Close(), "success")
	db, err = leveldb.Open(stor, nil)
	expect(t, "open after the close", err, "success")
	expect(t, "close", db.Close(), "success")
}

// damageTables changes the tables of a closed database. goleveldb may leave obsolete tables with the
// same entries, because a goroutine removes them.
func damageTables(t *testing.T, path string, damage func(content []byte)) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(path, "*.ldb"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	for _, table := range tables {
		content, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		damage(content)
		if err := os.WriteFile(table, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrorsOfDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db := open(t, path, nil)
	for i := range 1000 {
		if err := db.Put(fmt.Appendf(nil, "%04d", i), make([]byte, 100), nil); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "compaction", db.CompactRange(util.Range{}), "success")
	expect(t, "close", db.Close(), "success")
	damageTables(t, path, func(content []byte) { copy(content, make([]byte, 1000)) })
	// By default, goleveldb checks no checksums.
	db = open(t, path, &opt.Options{Strict: opt.StrictAll})
	_, err := db.Get([]byte("0000"), nil)
	expect(t, "get of damaged data", err, "corrupted")
	it := db.NewIterator(nil, nil)
	for it.Next() {
	}
	expect(t, "scan of damaged data", it.Error(), "corrupted")
	it.Release()
	expect(t, "close", db.Close(), "success")
}

// shown returns the entries that the moves of an iterator show before the first error.
func shown(it iterator.Iterator, begin, step func() bool) (keys []string) {
	for ok := begin(); ok; ok = step() {
		if err := it.Error(); err != nil {
			return append(keys, "error at an entry: "+err.Error())
		}
		keys = append(keys, string(it.Key()))
	}
	return keys
}

// An iterator that fetches entries in chunks must not show those after a damaged block.
func TestNoEntryAfterDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	options := &opt.Options{Compression: opt.NoCompression}
	db := open(t, path, options)
	for i := range 1000 {
		if err := db.Put(fmt.Appendf(nil, "%04d", i), fmt.Appendf(nil, "value %0100d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "compaction", db.CompactRange(util.Range{}), "success")
	expect(t, "close", db.Close(), "success")
	damageTables(t, path, func(content []byte) {
		content[bytes.Index(content, fmt.Appendf(nil, "value %0100d", 500))] ^= 1
	})

	db = open(t, path, options)
	defer db.Close()
	seek := func(it iterator.Iterator, key string) func() bool {
		return func() bool { return it.Seek([]byte(key)) }
	}
	for _, c := range []struct {
		name        string
		begin       func(it iterator.Iterator) func() bool
		isForward   bool
		first, kind string
	}{
		{"forward", func(it iterator.Iterator) func() bool { return it.First }, true, "0000", "corrupted"},
		{"backward", func(it iterator.Iterator) func() bool { return it.Last }, false, "0999", "corrupted"},
		{"from before the damage", func(it iterator.Iterator) func() bool { return seek(it, "0100") }, true, "0100", "corrupted"},
		{"back from behind the damage", func(it iterator.Iterator) func() bool { return seek(it, "0900") }, false, "0900", "corrupted"},
		{"from behind the damage", func(it iterator.Iterator) func() bool { return seek(it, "0900") }, true, "0900", "success"},
		{"back from before the damage", func(it iterator.Iterator) func() bool { return seek(it, "0100") }, false, "0100", "success"},
		{"into the damage", func(it iterator.Iterator) func() bool { return seek(it, "0500") }, true, "", "corrupted"},
	} {
		it := db.NewIterator(nil, nil)
		step := it.Next
		if !c.isForward {
			step = it.Prev
		}
		keys := shown(it, c.begin(it), step)
		expect(t, c.name, it.Error(), c.kind)
		if it.Valid() || it.Key() != nil {
			t.Errorf("%s: an entry at the end: %s", c.name, it.Key())
		}
		if c.kind == "corrupted" && (it.First() || it.Last() || it.Seek([]byte("0900"))) {
			t.Errorf("%s: a move after the error succeeds", c.name)
		}
		it.Release()
		if c.first == "" {
			if len(keys) != 0 {
				t.Errorf("%s: %d entries", c.name, len(keys))
			}
			continue
		}
		if keys[0] != c.first {
			t.Errorf("%s: the first entry is %s", c.name, keys[0])
		}
		for i := 1; i < len(keys); i++ {
			earlier, later := keys[i-1], keys[i]
			if !c.isForward {
				earlier, later = later, earlier
			}
			if before, _ := strconv.Atoi(earlier); fmt.Sprintf("%04d", before+1) != later {
				t.Errorf("%s: %s follows %s", c.name, keys[i], keys[i-1])
			}
		}
	}
}
