package leveldb

import (
	stderrors "errors"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	terrace "terracedb.org/go"
)

// OpenFile opens the database in the directory path, and creates it if it is missing.
func OpenFile(path string, o *opt.Options) (*DB, error) {
	stor, err := storage.OpenFile(path, o.GetReadOnly())
	if err != nil {
		return nil, err
	}
	db, err := Open(stor, o)
	return ownStorage(stor, db, err)
}

// ownStorage is the end of an open: the storage closes with the database, or at once after an error.
func ownStorage(stor storage.Storage, db *DB, err error) (*DB, error) {
	if err != nil {
		stor.Close()
		return nil, err
	}
	db.ownsStorage = true
	return db, nil
}

// Open opens the database of a storage: storage.OpenFile or storage.NewMemStorage. Another one is an
// error, because the engine reads and writes files itself.
func Open(stor storage.Storage, o *opt.Options) (*DB, error) {
	path, options, err := prepare(stor, o)
	if err != nil {
		return nil, err
	}
	db, err := terrace.Open(path, options)
	if err != nil {
		return nil, translateOpen(err, options)
	}
	return &DB{db: db, storage: stor, options: o, readOnly: options.ReadOnly}, nil
}

// RecoverFile repairs the database in the directory path and opens it.
func RecoverFile(path string, o *opt.Options) (*DB, error) {
	stor, err := storage.OpenFile(path, o.GetReadOnly())
	if err != nil {
		return nil, err
	}
	db, err := Recover(stor, o)
	return ownStorage(stor, db, err)
}

// Recover repairs the database of a storage and opens it. Keeps all readable entries.
func Recover(stor storage.Storage, o *opt.Options) (*DB, error) {
	path, options, err := prepare(stor, o)
	if err != nil {
		return nil, err
	}
	if _, err := terrace.Repair(path, options, options.ReadOnly); err != nil {
		// A missing database is created by the open, or is its error.
		if !stderrors.Is(err, terrace.InvalidArgument) && !stderrors.Is(err, terrace.NotFound) {
			return nil, translateOpen(err, options)
		}
	}
	return Open(stor, o)
}

// prepare translates the arguments of an open. Requests that the engine cannot fulfil are errors.
func prepare(stor storage.Storage, o *opt.Options) (string, *terrace.Options, error) {
	place, ok := stor.(interface {
		Database() (string, *terrace.Memory, bool, error)
	})
	if !ok {
		return "", nil, fmt.Errorf("leveldb: Terrace cannot open a storage of type %T: it reads and writes files itself; "+
			"use OpenFile, storage.OpenFile or storage.NewMemStorage", stor)
	}
	path, memory, readOnly, err := place.Database()
	if err != nil {
		return "", nil, err
	}
	options, err := translateOptions(o)
	if err != nil {
		return "", nil, err
	}
	options.Memory = memory
	options.ReadOnly = options.ReadOnly || readOnly
	return path, options, nil
}

// smallestCache is the capacity for databases without a block cache.
const smallestCache = 64 * opt.KiB

func translateOptions(o *opt.Options) (*terrace.Options, error) {
	if o == nil {
		o = &opt.Options{}
	}
	if order := o.GetComparer(); order != comparer.Comparer(comparer.DefaultComparer) {
		return nil, fmt.Errorf("leveldb: Terrace's packages for goleveldb support only comparer.DefaultComparer, not %q", order.Name())
	}
	bits := 0
	if o.Filter != nil {
		if bits = filter.BitsPerKey(o.Filter); bits == 0 {
			return nil, fmt.Errorf("leveldb: Terrace supports only filter.NewBloomFilter, not the filter %q", o.Filter.Name())
		}
	}
	options := &terrace.Options{
		BlockRestartInterval: max(o.BlockRestartInterval, 0),
		BlockSize:            max(o.BlockSize, 0),
		BloomBits:            bits,
		CacheSize:            max(o.BlockCacheCapacity, 0),
		ErrorIfExists:        o.ErrorIfExist,
		ErrorIfMissing:       o.ErrorIfMissing,
		MaxFileSize:          max(o.CompactionTableSize, 0),
		MaxOpenFiles:         max(o.OpenFilesCacheCapacity, 0),
		ParanoidChecks:       o.GetStrict(opt.StrictJournal),
		ReadOnly:             o.ReadOnly,
		WriteBufferSize:      max(o.WriteBuffer, 0),
	}
	if o.BlockCacheCapacity < 0 || o.DisableBlockCache || o.BlockCacher == opt.NoCacher {
		options.CacheSize = smallestCache
	}
	if o.GetCompression() == opt.NoCompression {
		options.Compression = "none"
	}
	return options, nil
}
