package main

import (
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func readGoleveldb(dir string, emit func(key, value []byte) error) (err error) {
	db, err := leveldb.OpenFile(dir, &opt.Options{ErrorIfMissing: true, Filter: filter.NewBloomFilter(10)})
	if err != nil {
		return err
	}
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	cursor := db.NewIterator(nil, nil)
	defer cursor.Release()
	for cursor.Next() {
		if err := emit(cursor.Key(), cursor.Value()); err != nil {
			return err
		}
	}
	return cursor.Error()
}
