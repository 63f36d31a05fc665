package main

import (
	"bytes"
	"errors"
	"math"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

type badgerStore struct{ db *badger.DB }

func openBadger(dir string, settings Settings) (Store, error) {
	db, err := badger.Open(badgerOptions(dir, settings))
	if err != nil {
		return nil, err
	}
	return badgerStore{db}, nil
}

func badgerOptions(dir string, settings Settings) badger.Options {
	opts := badger.DefaultOptions(dir).WithLogger(nil)
	if settings.WriteBufferBytes != nil {
		size := int64(*settings.WriteBufferBytes)
		// A value above the threshold must fit into 15 % of a memtable.
		opts = opts.WithMemTableSize(size).WithValueThreshold(min(opts.ValueThreshold, size/10))
	}
	if settings.CacheBytes != nil {
		opts = opts.WithBlockCacheSize(int64(*settings.CacheBytes))
	}
	if settings.FilterBits != nil && *settings.FilterBits > 0 {
		// Share of false positives of a Bloom filter with this number of bits per key.
		opts = opts.WithBloomFalsePositive(math.Pow(0.6185, float64(*settings.FilterBits)))
	}
	if settings.Compression != nil {
		opts = opts.WithCompression(badgerCompression(*settings.Compression))
	}
	return opts
}

func badgerCompression(name string) options.CompressionType {
	switch name {
	case "none":
		return options.None
	case "zstd":
		return options.ZSTD
	}
	return options.Snappy
}

func (s badgerStore) update(sync bool, change func(txn *badger.Txn) error) error {
	err := s.db.Update(change)
	if err == nil && sync {
		err = s.db.Sync()
	}
	return err
}

func (s badgerStore) Put(key, value []byte, sync bool) error {
	return s.update(sync, func(txn *badger.Txn) error { return txn.Set(key, value) })
}

func (s badgerStore) Delete(key []byte, sync bool) error {
	return s.update(sync, func(txn *badger.Txn) error { return txn.Delete(key) })
}

func (s badgerStore) Write(changes []Change, sync bool) error {
	return s.update(sync, func(txn *badger.Txn) error {
		for _, change := range changes {
			err := txn.Delete(change.key)
			if change.value != nil {
				err = txn.Set(change.key, change.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s badgerStore) Get(key, into []byte) (value []byte, found bool, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		value, found, err = badgerTxn{txn}.Get(key, into)
		return err
	})
	return value, found, err
}

func (s badgerStore) Cursor() (Cursor, error) {
	return &badgerCursor{txn: s.db.NewTransaction(false)}, nil
}

func (s badgerStore) Compact() error { return s.db.Flatten(1) }

func (s badgerStore) Close() error { return s.db.Close() }

func (s badgerStore) Transact(body func(Txn) error) error {
	for {
		err := s.db.Update(func(txn *badger.Txn) error { return body(badgerTxn{txn}) })
		if !errors.Is(err, badger.ErrConflict) {
			return err
		}
	}
}

type badgerTxn struct{ txn *badger.Txn }

func (t badgerTxn) Get(key, into []byte) ([]byte, bool, error) {
	item, err := t.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return into, false, nil
	}
	if err != nil {
		return into, false, err
	}
	value, err := item.ValueCopy(into)
	return value, err == nil, err
}

// Put keeps copies, because Badger reads key and value until the commit.
func (t badgerTxn) Put(key, value []byte) error {
	return t.txn.Set(bytes.Clone(key), bytes.Clone(value))
}

func (t badgerTxn) Scan(from, to []byte, visit func(key, value []byte) error) error {
	iter := t.txn.NewIterator(badger.DefaultIteratorOptions)
	defer iter.Close()
	for iter.Seek(from); iter.Valid() && bytes.Compare(iter.Item().Key(), to) < 0; iter.Next() {
		item := iter.Item()
		if err := item.Value(func(value []byte) error { return visit(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}

// badgerCursor has an iterator of one direction. A change of direction creates another one.
type badgerCursor struct {
	txn     *badger.Txn
	iter    *badger.Iterator
	reverse bool
	value   []byte
}

// turn creates iter, or replaces it if it has the other direction.
func (c *badgerCursor) turn(reverse bool) {
	if c.iter != nil && c.reverse == reverse {
		return
	}
	if c.iter != nil {
		c.iter.Close()
	}
	opts := badger.DefaultIteratorOptions
	opts.Reverse = reverse
	c.iter, c.reverse = c.txn.NewIterator(opts), reverse
}

func (c *badgerCursor) First() bool {
	c.turn(false)
	c.iter.Rewind()
	return c.iter.Valid()
}

func (c *badgerCursor) Last() bool {
	c.turn(true)
	c.iter.Rewind()
	return c.iter.Valid()
}

func (c *badgerCursor) Seek(key []byte) bool {
	c.turn(false)
	c.iter.Seek(key)
	return c.iter.Valid()
}

func (c *badgerCursor) step(reverse bool) bool {
	if c.reverse != reverse {
		key := c.iter.Item().KeyCopy(nil)
		c.turn(reverse)
		c.iter.Seek(key)
	}
	c.iter.Next()
	return c.iter.Valid()
}

func (c *badgerCursor) Next() bool  { return c.step(false) }
func (c *badgerCursor) Prev() bool  { return c.step(true) }
func (c *badgerCursor) Key() []byte { return c.iter.Item().Key() }

func (c *badgerCursor) Value() (value []byte, err error) {
	c.value, err = c.iter.Item().ValueCopy(c.value)
	return c.value, err
}

func (c *badgerCursor) Close() error {
	if c.iter != nil {
		c.iter.Close()
	}
	c.txn.Discard()
	return nil
}
