package main

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

type goleveldbStore struct{ db *leveldb.DB }

func openGoleveldb(dir string, settings Settings) (Store, error) {
	db, err := leveldb.OpenFile(dir, goleveldbOptions(settings))
	if err != nil {
		return nil, err
	}
	return goleveldbStore{db}, nil
}

func goleveldbOptions(settings Settings) *opt.Options {
	options := &opt.Options{}
	if settings.WriteBufferBytes != nil {
		options.WriteBuffer = int(*settings.WriteBufferBytes)
	}
	if settings.CacheBytes != nil {
		options.BlockCacheCapacity = int(*settings.CacheBytes)
	}
	if settings.FilterBits != nil && *settings.FilterBits > 0 {
		options.Filter = filter.NewBloomFilter(*settings.FilterBits)
	}
	if settings.Compression != nil {
		options.Compression = goleveldbCompression(*settings.Compression)
	}
	return options
}

// goleveldbCompression is Snappy for every codec that goleveldb lacks, as the table of engines says.
func goleveldbCompression(name string) opt.Compression {
	if name == "none" {
		return opt.NoCompression
	}
	return opt.SnappyCompression
}

func (s goleveldbStore) Put(key, value []byte, sync bool) error {
	return s.db.Put(key, value, &opt.WriteOptions{Sync: sync})
}

func (s goleveldbStore) Delete(key []byte, sync bool) error {
	return s.db.Delete(key, &opt.WriteOptions{Sync: sync})
}

func (s goleveldbStore) Write(changes []Change, sync bool) error {
	var batch leveldb.Batch
	for _, change := range changes {
		if change.value == nil {
			batch.Delete(change.key)
		} else {
			batch.Put(change.key, change.value)
		}
	}
	return s.db.Write(&batch, &opt.WriteOptions{Sync: sync})
}

func (s goleveldbStore) Get(key, into []byte) ([]byte, bool, error) {
	value, err := s.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return into, false, nil
	}
	if err != nil {
		return into, false, err
	}
	return append(into, value...), true, nil
}

func (s goleveldbStore) Cursor() (Cursor, error) {
	return goleveldbCursor{s.db.NewIterator(nil, nil)}, nil
}

func (s goleveldbStore) Compact() error { return s.db.CompactRange(util.Range{}) }
func (s goleveldbStore) Close() error   { return s.db.Close() }

type goleveldbCursor struct{ iterator.Iterator }

func (c goleveldbCursor) Value() ([]byte, error) { return c.Iterator.Value(), nil }

func (c goleveldbCursor) Close() error {
	c.Release()
	return c.Error()
}
