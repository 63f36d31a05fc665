package terrace

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// An iterator in random directions shows the same entries as a sorted list.
func TestIteratorBesideModel(t *testing.T) {
	for _, options := range []*IterOptions{nil, {Start: []byte("k000300"), Limit: []byte("k000700")}, {Prefix: []byte("k0005")}} {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		db := openDB(t)
		model := map[string]string{}
		for range 3000 {
			key, value := fmt.Sprintf("k%06d", random.IntN(1000)), string(make([]byte, random.IntN(3000)))
			check(t, db.Put([]byte(key), []byte(value), nil))
			model[key] = value
		}
		keys := slices.Sorted(maps.Keys(model))
		if options != nil {
			keys = slices.DeleteFunc(keys, func(key string) bool {
				return key < string(options.Start) || (options.Limit != nil && key >= string(options.Limit)) ||
					!bytes.HasPrefix([]byte(key), options.Prefix)
			})
		}
		it := db.NewIterator(options)
		for step, at := 0, -1; step < 20_000; step++ {
			var valid bool
			switch choice := random.IntN(100); {
			case choice == 0:
				at, valid = 0, it.First()
			case choice == 1:
				at, valid = len(keys)-1, it.Last()
			case choice < 4:
				key := fmt.Sprintf("k%06d", random.IntN(1000))
				at, _ = slices.BinarySearch(keys, key)
				valid = it.Seek([]byte(key))
			case (choice/4+step/64)%2 == 0 || choice < 30:
				at, valid = min(at+1, len(keys)), it.Next()
			default:
				at, valid = max(at-1, -1), it.Prev()
			}
			expected := at >= 0 && at < len(keys)
			if valid != expected || it.Error() != nil {
				t.Fatalf("seed %d, step %d: %v, %v", seed, step, valid, it.Error())
			}
			if valid && (string(it.Key()) != keys[at] || string(it.Value()) != model[keys[at]]) {
				t.Fatalf("seed %d, step %d: key %q, expected %q", seed, step, it.Key(), keys[at])
			}
		}
		it.Release()
	}
}

// Values of all sizes return unchanged, in changing order of their sizes.
func TestValueSizes(t *testing.T) {
	db := openDB(t)
	sizes := []int{0, 1, 511, 512, 513, 100_000, 3, 16 << 20, 0, 600, 700, 100}
	for i, size := range sizes {
		check(t, db.Put([]byte{byte(i)}, bytes.Repeat([]byte{byte(i)}, size), nil))
	}
	for range 2 {
		for i, size := range sizes {
			value, err := db.Get([]byte{byte(i)})
			if err != nil || value == nil || !bytes.Equal(value, bytes.Repeat([]byte{byte(i)}, size)) {
				t.Errorf("size %d: %d bytes, %v", size, len(value), err)
			}
		}
	}
	it, i := db.NewIterator(nil), 0
	for key, value := range it.All() {
		if key[0] != byte(i) || len(value) != sizes[i] {
			t.Errorf("entry %d: key %v, %d bytes", i, key, len(value))
		}
		i++
	}
	if i != len(sizes) {
		t.Errorf("%d entries, %v", i, it.Error())
	}
	_, err := db.Get([]byte("missing"))
	expectError(t, "missing", err, ErrNotFound)
}

func TestTransactions(t *testing.T) {
	db := openDB(t)
	key := []byte("count")
	check(t, db.Put(key, []byte{0}, nil))
	txn, err := db.Begin(nil)
	check(t, err)
	value, err := txn.Get(key)
	check(t, err)
	check(t, txn.Put([]byte("own"), value))
	savepoint, err := txn.Savepoint()
	check(t, err)
	check(t, txn.Delete([]byte("own")))
	check(t, txn.RollbackTo(savepoint))
	it := txn.NewIterator(nil)
	if !it.Last() || string(it.Key()) != "own" {
		t.Errorf("the iterator of a transaction omits its write: %v", it.Error())
	}
	check(t, db.Put(key, []byte{7}, nil))
	err = txn.Commit()
	expectError(t, "commit after another write", err, Busy)
	if found, err := db.Has([]byte("own")); found || err != nil {
		t.Error("a failed commit has written")
	}

	done := make(chan error)
	const rounds = 200
	for range 4 {
		go func() {
			var err error
			for range rounds {
				err = errors.Join(err, db.Update(&TxnOptions{Locking: true}, func(txn *Txn) error {
					value, err := txn.GetForUpdate(key)
					if err != nil {
						return err
					}
					number := int(value[0]) + 256*int(append(value, 0)[1]) + 1
					return txn.Put(key, []byte{byte(number), byte(number >> 8)})
				}))
			}
			done <- err
		}()
	}
	for range 4 {
		check(t, <-done)
	}
	value, err = db.Get(key)
	check(t, err)
	if sum := int(value[0]) + 256*int(value[1]); sum != 7+4*rounds {
		t.Errorf("updates were lost: %d", sum)
	}
}

func TestFollowerAndMaintenance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := Open(path, &Options{Compression: "none", BloomBits: 14, CacheSize: 1 << 20, WriteBufferSize: 1 << 20,
		MaxFileSize: 1 << 20, BlockSize: 8192, BlockRestartInterval: 8, MaxOpenFiles: 100, ReuseLogs: true})
	check(t, err)
	fill(t, db, 1000)
	follower, err := OpenFollower(path, 0, nil)
	check(t, err)
	check(t, db.Put([]byte("new"), []byte("1"), Sync))
	sequence, err := follower.CatchUp()
	if value, _ := follower.Get([]byte("new")); err != nil || string(value) != "1" || sequence != 1001 {
		t.Errorf("the follower reads %q at %d: %v", value, sequence, err)
	}
	expectError(t, "write through a follower", follower.Put(nil, nil, nil), NotSupported)
	check(t, follower.Close())

	check(t, db.DeleteRange([]byte("k000100"), []byte("k000900")))
	copied := filepath.Join(t.TempDir(), "copy")
	_, err = db.Checkpoint(copied)
	check(t, err)
	check(t, db.Flush())
	check(t, db.CompactRange(nil, nil))
	stats, err := db.Stats()
	if tables := 0; err == nil {
		for _, level := range stats.Levels {
			tables += level.Tables
		}
		if tables == 0 || stats.Memory == 0 || len(stats.Levels) != 7 {
			t.Errorf("%+v", stats)
		}
	}
	size, err := db.ApproximateSize(nil, []byte("l"))
	if err != nil || size == 0 {
		t.Errorf("the size is %d: %v", size, err)
	}
	check(t, db.Close())

	for _, path := range []string{path, copied} {
		report, problems, err := Verify(path, nil)
		if err != nil || problems != 0 {
			t.Errorf("%s: %v", report, err)
		}
		db, err := Open(path, &Options{ReadOnly: true})
		check(t, err)
		count, it := 0, db.NewIterator(nil)
		for it.Next() {
			count++
		}
		if count != 201 {
			t.Errorf("%s: %d entries, %v", path, count, it.Error())
		}
		expectError(t, "read-only", db.Put(nil, nil, nil), NotSupported)
		check(t, db.Close())
	}
	report, err := Repair(copied, nil, false)
	if err != nil || report == "" {
		t.Errorf("repair: %q, %v", report, err)
	}
	check(t, Destroy(copied, nil))
	_, err = Open(copied, &Options{ErrorIfMissing: true})
	expectError(t, "destroyed", err, InvalidArgument)
}

func TestBatches(t *testing.T) {
	var batch, copied, sum Batch
	batch.Put([]byte("a"), []byte("1"))
	batch.Delete(nil)
	check(t, copied.Load(batch.Bytes()))
	sum.Append(&batch)
	sum.Append(&copied)
	var text string
	check(t, sum.Operations(func(key, value []byte) { text += fmt.Sprintf("+%s=%s ", key, value) },
		func(key []byte) { text += fmt.Sprintf("-%s ", key) }))
	if text != "+a=1 - +a=1 - " || sum.Len() != 4 {
		t.Errorf("%q", text)
	}
	bytes := batch.Bytes()
	for _, invalid := range [][]byte{nil, bytes[:11], bytes[:len(bytes)-1], append(slices.Clone(bytes), 2), append(slices.Clone(bytes), 0, 9)} {
		expectError(t, fmt.Sprint(invalid), copied.Load(invalid), Corruption)
		if copied.Len() != 0 {
			t.Error("an invalid batch has operations")
		}
	}
}

// Two databases in memory are apart, and one of them outlives its close.
func TestMemory(t *testing.T) {
	memory := NewMemory()
	for round := range 2 {
		db, err := Open("db", &Options{Memory: memory})
		check(t, err)
		other, err := Open("db", &Options{Memory: NewMemory()})
		check(t, err)
		check(t, db.Put(fmt.Append(nil, round), nil, nil))
		if found, err := db.Has([]byte("0")); !found || err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if found, err := other.Has([]byte("0")); found || err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		check(t, db.Close())
		check(t, other.Close())
	}
}
