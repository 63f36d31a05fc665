package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

type pebbleStore struct {
	db      *pebble.DB
	options *pebble.Options // with all defaults, for the tables of a bulk load
	dir     string
}

func openPebble(dir string, settings Settings) (Store, error) {
	options := pebbleOptions(settings)
	if options.Cache != nil {
		defer options.Cache.Unref() // the database holds a reference of its own
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	defaults := options.Clone()
	defaults.EnsureDefaults()
	return pebbleStore{db, defaults, dir}, nil
}

func pebbleOptions(settings Settings) *pebble.Options {
	options := &pebble.Options{Logger: silent{}, FormatMajorVersion: pebble.FormatNewest}
	if settings.WriteBufferBytes != nil {
		options.MemTableSize = *settings.WriteBufferBytes
	}
	if settings.FilterBits != nil && *settings.FilterBits > 0 {
		for level := range options.Levels {
			options.Levels[level].FilterPolicy = bloom.FilterPolicy(*settings.FilterBits)
		}
	}
	if settings.Compression != nil {
		profile := pebbleCompression(*settings.Compression)
		for level := range options.Levels {
			options.Levels[level].Compression = func() *sstable.CompressionProfile { return profile }
		}
	}
	if settings.CacheBytes != nil {
		options.Cache = pebble.NewCache(int64(*settings.CacheBytes))
	}
	return options
}

// pebbleCompression is Snappy, Pebble's default, for every codec that it lacks.
func pebbleCompression(name string) *sstable.CompressionProfile {
	switch name {
	case "none":
		return sstable.NoCompression
	case "zstd":
		return sstable.ZstdCompression
	}
	return sstable.SnappyCompression
}

func (s pebbleStore) Put(key, value []byte, sync bool) error {
	return s.db.Set(key, value, &pebble.WriteOptions{Sync: sync})
}

func (s pebbleStore) Delete(key []byte, sync bool) error {
	return s.db.Delete(key, &pebble.WriteOptions{Sync: sync})
}

func (s pebbleStore) Write(changes []Change, sync bool) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for _, change := range changes {
		if err := addTo(batch, change); err != nil {
			return err
		}
	}
	return batch.Commit(&pebble.WriteOptions{Sync: sync})
}

func addTo(batch *pebble.Batch, change Change) error {
	if change.value == nil {
		return batch.Delete(change.key, nil)
	}
	return batch.Set(change.key, change.value, nil)
}

func (s pebbleStore) Get(key, into []byte) ([]byte, bool, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return into, false, nil
	}
	if err != nil {
		return into, false, err
	}
	into = append(into, value...)
	return into, true, closer.Close()
}

func (s pebbleStore) Cursor() (Cursor, error) {
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	return pebbleCursor{iter}, nil
}

// Compact names both ends, because Pebble has no word for "everything".
func (s pebbleStore) Compact() error {
	first, last, err := s.ends()
	if err != nil || first == nil {
		return err
	}
	return s.db.Compact(context.Background(), first, append(last, 0), true)
}

// ends are the first and the last key; nil if there is none.
func (s pebbleStore) ends() (first, last []byte, err error) {
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return nil, nil, err
	}
	if iter.First() {
		first = slices.Clone(iter.Key())
	}
	if iter.Last() {
		last = slices.Clone(iter.Key())
	}
	return first, last, iter.Close()
}

const tableBytes = 64 << 20 // bytes of keys and values in a table of a bulk load, as for RocksDB

// BulkLoad writes tables in a directory beside the database, and ingests them.
func (s pebbleStore) BulkLoad(entries *sortedEntries) error {
	dir := s.dir + ".load"
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	var paths []string
	for first := 0; first < len(entries.places); {
		path := filepath.Join(dir, fmt.Sprintf("%d.sst", len(paths)))
		next, err := s.writeTable(entries, first, path)
		if err != nil {
			return err
		}
		paths, first = append(paths, path), next
	}
	if len(paths) > 0 {
		if err := s.db.Ingest(context.Background(), paths); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// writeTable writes a table that begins with entry first. It returns the index of the entry after the table.
func (s pebbleStore) writeTable(entries *sortedEntries, first int, path string) (next int, err error) {
	file, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return first, err
	}
	options := s.options.MakeWriterOptions(0, s.db.TableFormat())
	writer := sstable.NewWriter(objstorageprovider.NewFileWritable(file), options)
	defer func() { err = errors.Join(err, writer.Close()) }()
	size := 0
	for next = first; next < len(entries.places) && size < tableBytes; next++ {
		at := entries.places[next]
		if err := writer.Set(entries.key(at), entries.value(at)); err != nil {
			return next, err
		}
		size += at.end - at.start
	}
	return next, nil
}

func (s pebbleStore) Checkpoint(dir string) error { return s.db.Checkpoint(dir) }

func (s pebbleStore) Close() error { return s.db.Close() }

type pebbleCursor struct{ *pebble.Iterator }

func (c pebbleCursor) Seek(key []byte) bool   { return c.SeekGE(key) }
func (c pebbleCursor) Value() ([]byte, error) { return c.ValueAndErr() }

// silent is a log that discards its messages. A fatal error of Pebble still ends the program.
type silent struct{}

func (silent) Infof(string, ...any)                {}
func (silent) Errorf(string, ...any)               {}
func (silent) Fatalf(format string, values ...any) { panic(fmt.Sprintf(format, values...)) }
