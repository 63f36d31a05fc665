//go:build levigo

package main

import "github.com/jmhodges/levigo"

// levigoStore is a database of LevelDB with its default options.
type levigoStore struct {
	db     *levigo.DB
	reads  *levigo.ReadOptions
	writes *levigo.WriteOptions
	batch  *levigo.WriteBatch
}

func openStore(path string) (store, error) {
	options := levigo.NewOptions()
	defer options.Close()
	options.SetCreateIfMissing(true)
	db, err := levigo.Open(path, options)
	if err != nil {
		return nil, err
	}
	return &levigoStore{db, levigo.NewReadOptions(), levigo.NewWriteOptions(), levigo.NewWriteBatch()}, nil
}

func (s *levigoStore) put(key, value []byte) error    { return s.db.Put(s.writes, key, value) }
func (s *levigoStore) get(key []byte) ([]byte, error) { return s.db.Get(s.reads, key) }
func (s *levigoStore) delete(key []byte) error        { return s.db.Delete(s.writes, key) }
func (s *levigoStore) iterator() cursor               { return levigoCursor{s.db.NewIterator(s.reads)} }

func (s *levigoStore) writeBatch(fill func(put func(key, value []byte))) error {
	s.batch.Clear()
	fill(s.batch.Put)
	return s.db.Write(s.writes, s.batch)
}

func (s *levigoStore) close() error {
	s.batch.Close()
	s.reads.Close()
	s.writes.Close()
	s.db.Close()
	return nil
}

// levigoCursor has the moves of goleveldb's iterators: each returns whether there is an entry.
type levigoCursor struct{ it *levigo.Iterator }

func (c levigoCursor) First() bool          { c.it.SeekToFirst(); return c.it.Valid() }
func (c levigoCursor) Last() bool           { c.it.SeekToLast(); return c.it.Valid() }
func (c levigoCursor) Next() bool           { c.it.Next(); return c.it.Valid() }
func (c levigoCursor) Prev() bool           { c.it.Prev(); return c.it.Valid() }
func (c levigoCursor) Seek(key []byte) bool { c.it.Seek(key); return c.it.Valid() }
func (c levigoCursor) Error() error         { return c.it.GetError() }
func (c levigoCursor) Release()             { c.it.Close() }
