// Package opt has the options of databases, reads and writes.
//
// Options for details of goleveldb's own implementation have no effect: the engine chooses compactions,
// write delays and caches of open files itself. The comment of each such option says so.
package opt

import (
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
)

// Units of bytes.
const (
	KiB = 1024
	MiB = KiB * 1024
	GiB = MiB * 1024
)

// Default values.
var (
	DefaultBlockCacher            = LRUCacher
	DefaultBlockCacheCapacity     = 8 * MiB
	DefaultBlockRestartInterval   = 16
	DefaultBlockSize              = 4 * KiB
	DefaultCompactionL0Trigger    = 4
	DefaultCompactionTableSize    = 2 * MiB
	DefaultCompactionTotalSize    = 10 * MiB
	DefaultCompressionType        = SnappyCompression
	DefaultIteratorSamplingRate   = 1 * MiB
	DefaultOpenFilesCacher        = LRUCacher
	DefaultOpenFilesCacheCapacity = 500
	DefaultWriteBuffer            = 4 * MiB
	DefaultWriteL0PauseTrigger    = 12
	DefaultWriteL0SlowdownTrigger = 8
	DefaultFilterBaseLg           = 11
	DefaultMaxManifestFileSize    = int64(64 * MiB)
)

// Cacher is the algorithm of a cache. The engine has one of its own, so the choice between the caches
// of this package only turns the block cache on and off.
type Cacher interface {
	isCacher()
}

type cacher bool

func (cacher) isCacher() {}

// Caches.
var (
	LRUCacher Cacher = cacher(true)
	NoCacher  Cacher = cacher(false) // the smallest block cache of the engine
)

// Compression is the compression of blocks.
type Compression uint

// Compressions.
const (
	DefaultCompression Compression = iota
	NoCompression
	SnappyCompression
)

// String returns the name of the compression.
func (c Compression) String() string {
	switch c {
	case DefaultCompression:
		return "default"
	case NoCompression:
		return "none"
	case SnappyCompression:
		return "snappy"
	}
	return "invalid"
}

// Strict is a set of strict checks.
type Strict uint

// Strict checks. StrictJournal makes an open fail on the first damaged record; StrictReader makes reads
// compare checksums of cached blocks, too. The engine always makes the other checks.
const (
	StrictManifest Strict = 1 << iota
	StrictJournalChecksum
	StrictJournal
	StrictBlockChecksum
	StrictCompaction
	StrictReader
	StrictRecovery
	StrictOverride // of read options: ignore the options of the database

	StrictAll = StrictManifest | StrictJournalChecksum | StrictJournal | StrictBlockChecksum |
		StrictCompaction | StrictReader | StrictRecovery
	DefaultStrict = StrictJournalChecksum | StrictBlockChecksum | StrictCompaction | StrictReader
	NoStrict      = ^StrictAll
)

// Options are the options of a database; nil means the defaults.
type Options struct {
	AltFilters                            []filter.Filter // no effect
	BlockCacher                           Cacher
	BlockCacheCapacity                    int  // bytes; 0: the engine's default; negative: the smallest cache
	BlockCacheEvictRemoved                bool // no effect
	BlockRestartInterval                  int
	BlockSize                             int
	CompactionExpandLimitFactor           int // no effect
	CompactionGPOverlapsFactor            int // no effect
	CompactionL0Trigger                   int // no effect
	CompactionSourceLimitFactor           int // no effect
	CompactionTableSize                   int
	CompactionTableSizeMultiplier         float64           // no effect
	CompactionTableSizeMultiplierPerLevel []float64         // no effect
	CompactionTotalSize                   int               // no effect
	CompactionTotalSizeMultiplier         float64           // no effect
	CompactionTotalSizeMultiplierPerLevel []float64         // no effect
	Comparer                              comparer.Comparer // only DefaultComparer; another one fails at open
	Compression                           Compression       // default: snappy
	DisableBufferPool                     bool              // no effect
	DisableBlockCache                     bool              // the smallest cache
	DisableCompactionBackoff              bool              // no effect
	DisableLargeBatchTransaction          bool              // no effect
	DisableSeeksCompaction                bool              // no effect
	ErrorIfExist                          bool
	ErrorIfMissing                        bool
	Filter                                filter.Filter // filter.NewBloomFilter; nil: the engine's default; another one fails at open
	IteratorSamplingRate                  int           // no effect
	NoSync                                bool          // ignore Sync of write options
	NoWriteMerge                          bool          // no effect
	OpenFilesCacher                       Cacher        // no effect
	OpenFilesCacheCapacity                int           // number of open tables
	ReadOnly                              bool
	Strict                                Strict
	WriteBuffer                           int   // size of a memtable; 0: the engine's default
	WriteL0PauseTrigger                   int   // no effect
	WriteL0SlowdownTrigger                int   // no effect
	FilterBaseLg                          int   // no effect
	MaxManifestFileSize                   int64 // no effect
}

// ReadOptions are the options of a read; nil means the defaults.
type ReadOptions struct {
	DontFillCache bool // do not keep the blocks in the cache, for iterators
	Strict        Strict
}

// WriteOptions are the options of a write; nil means the defaults.
type WriteOptions struct {
	NoWriteMerge bool // no effect
	Sync         bool // durable before the call returns
}
