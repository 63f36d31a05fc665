package opt

import (
	"github.com/syndtr/goleveldb/leveldb/comparer"
	"github.com/syndtr/goleveldb/leveldb/filter"
)

// option returns a field of the options, or its zero value without options.
func option[T any](o *Options, field func(*Options) T) (value T) {
	if o != nil {
		value = field(o)
	}
	return value
}

// positive returns a field of the options, or the default unless it is positive.
func positive(o *Options, field func(*Options) int, standard int) int {
	if value := option(o, field); value > 0 {
		return value
	}
	return standard
}

// capacity returns a field of the options: the default for 0, and 0 for a negative number.
func capacity(o *Options, field func(*Options) int, standard int) int {
	value := option(o, field)
	if value == 0 {
		return standard
	}
	return max(value, 0)
}

// The getters return an option, or its default.

func (o *Options) GetAltFilters() []filter.Filter {
	return option(o, func(o *Options) []filter.Filter { return o.AltFilters })
}

func (o *Options) GetBlockCacher() Cacher {
	if o == nil || o.BlockCacher == nil {
		return DefaultBlockCacher
	}
	return o.BlockCacher
}

func (o *Options) GetBlockCacheCapacity() int {
	return capacity(o, func(o *Options) int { return o.BlockCacheCapacity }, DefaultBlockCacheCapacity)
}

func (o *Options) GetBlockRestartInterval() int {
	return positive(o, func(o *Options) int { return o.BlockRestartInterval }, DefaultBlockRestartInterval)
}

func (o *Options) GetBlockSize() int {
	return positive(o, func(o *Options) int { return o.BlockSize }, DefaultBlockSize)
}

func (o *Options) GetCompactionL0Trigger() int {
	return positive(o, func(o *Options) int { return o.CompactionL0Trigger }, DefaultCompactionL0Trigger)
}

func (o *Options) GetComparer() comparer.Comparer {
	if o == nil || o.Comparer == nil {
		return comparer.DefaultComparer
	}
	return o.Comparer
}

func (o *Options) GetCompression() Compression {
	if o == nil || o.Compression == DefaultCompression || o.Compression > SnappyCompression {
		return DefaultCompressionType
	}
	return o.Compression
}

func (o *Options) GetDisableBufferPool() bool {
	return option(o, func(o *Options) bool { return o.DisableBufferPool })
}

func (o *Options) GetDisableBlockCache() bool {
	return option(o, func(o *Options) bool { return o.DisableBlockCache })
}

func (o *Options) GetDisableCompactionBackoff() bool {
	return option(o, func(o *Options) bool { return o.DisableCompactionBackoff })
}

func (o *Options) GetDisableLargeBatchTransaction() bool {
	return option(o, func(o *Options) bool { return o.DisableLargeBatchTransaction })
}

func (o *Options) GetDisableSeeksCompaction() bool {
	return option(o, func(o *Options) bool { return o.DisableSeeksCompaction })
}

func (o *Options) GetErrorIfExist() bool {
	return option(o, func(o *Options) bool { return o.ErrorIfExist })
}

func (o *Options) GetErrorIfMissing() bool {
	return option(o, func(o *Options) bool { return o.ErrorIfMissing })
}

func (o *Options) GetFilter() filter.Filter {
	return option(o, func(o *Options) filter.Filter { return o.Filter })
}

func (o *Options) GetIteratorSamplingRate() int {
	return capacity(o, func(o *Options) int { return o.IteratorSamplingRate }, DefaultIteratorSamplingRate)
}

func (o *Options) GetNoSync() bool {
	return option(o, func(o *Options) bool { return o.NoSync })
}

func (o *Options) GetNoWriteMerge() bool {
	return option(o, func(o *Options) bool { return o.NoWriteMerge })
}

func (o *Options) GetOpenFilesCacher() Cacher {
	if o == nil || o.OpenFilesCacher == nil {
		return DefaultOpenFilesCacher
	}
	return o.OpenFilesCacher
}

func (o *Options) GetOpenFilesCacheCapacity() int {
	return capacity(o, func(o *Options) int { return o.OpenFilesCacheCapacity }, DefaultOpenFilesCacheCapacity)
}

func (o *Options) GetReadOnly() bool {
	return option(o, func(o *Options) bool { return o.ReadOnly })
}

func (o *Options) GetStrict(strict Strict) bool {
	if o == nil || o.Strict == 0 {
		return DefaultStrict&strict != 0
	}
	return o.Strict&strict != 0
}

func (o *Options) GetWriteBuffer() int {
	return positive(o, func(o *Options) int { return o.WriteBuffer }, DefaultWriteBuffer)
}

func (o *Options) GetWriteL0PauseTrigger() int {
	return positive(o, func(o *Options) int { return o.WriteL0PauseTrigger }, DefaultWriteL0PauseTrigger)
}

func (o *Options) GetWriteL0SlowdownTrigger() int {
	return positive(o, func(o *Options) int { return o.WriteL0SlowdownTrigger }, DefaultWriteL0SlowdownTrigger)
}

func (o *Options) GetFilterBaseLg() int {
	return positive(o, func(o *Options) int { return o.FilterBaseLg }, DefaultFilterBaseLg)
}

func (ro *ReadOptions) GetDontFillCache() bool { return ro != nil && ro.DontFillCache }

func (ro *ReadOptions) GetStrict(strict Strict) bool { return ro != nil && ro.Strict&strict != 0 }

func (wo *WriteOptions) GetNoWriteMerge() bool { return wo != nil && wo.NoWriteMerge }

func (wo *WriteOptions) GetSync() bool { return wo != nil && wo.Sync }

// GetStrict reports whether a check is on for a read.
func GetStrict(o *Options, ro *ReadOptions, strict Strict) bool {
	if ro.GetStrict(StrictOverride) {
		return ro.GetStrict(strict)
	}
	return o.GetStrict(strict) || ro.GetStrict(strict)
}
