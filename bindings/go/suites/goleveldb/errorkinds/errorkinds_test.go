// Package errorkinds tests the errors of goleveldb's packages. The same file is a test of the module
// `programs`, which replaces goleveldb by the packages of this binding.
package errorkinds

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
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
	expect(t, "SetReadOnly after the close", db.SetReadOnly(), "closed")
	expect(t, "no batch after the close", db.Write(nil, nil), "closed")

	db = open(t, path, &opt.Options{ReadOnly: true})
	expectRefusals(t, db)
	expect(t, "close of the reader", db.Close(), "success")
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
	tables, err := filepath.Glob(filepath.Join(path, "*.ldb"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	for _, table := range tables {
		content, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		copy(content, make([]byte, 1000))
		if err := os.WriteFile(table, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// By default, goleveldb checks no checksums.
	db = open(t, path, &opt.Options{Strict: opt.StrictAll})
	_, err = db.Get([]byte("0000"), nil)
	expect(t, "get of damaged data", err, "corrupted")
	it := db.NewIterator(nil, nil)
	for it.Next() {
	}
	expect(t, "scan of damaged data", it.Error(), "corrupted")
	it.Release()
	expect(t, "close", db.Close(), "success")
}
