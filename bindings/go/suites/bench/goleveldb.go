//go:build !levigo

package main

import "github.com/syndtr/goleveldb/leveldb"

// goleveldbStore is a database behind goleveldb's interface.
type goleveldbStore struct {
	db    *leveldb.DB
	batch leveldb.Batch
}

func openStore(path string) (store, error) {
	db, err := leveldb.OpenFile(path, nil)
	return &goleveldbStore{db: db}, err
}

func (s *goleveldbStore) put(key, value []byte) error    { return s.db.Put(key, value, nil) }
func (s *goleveldbStore) get(key []byte) ([]byte, error) { return s.db.Get(key, nil) }
func (s *goleveldbStore) delete(key []byte) error        { return s.db.Delete(key, nil) }
func (s *goleveldbStore) iterator() cursor               { return s.db.NewIterator(nil, nil) }
func (s *goleveldbStore) close() error                   { return s.db.Close() }

func (s *goleveldbStore) writeBatch(fill func(put func(key, value []byte))) error {
	s.batch.Reset()
	fill(s.batch.Put)
	return s.db.Write(&s.batch, nil)
}
