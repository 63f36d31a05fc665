package leveldb

import (
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
	terrace "terracedb.org/go"
)

// BatchReplay receives the operations of a batch.
type BatchReplay interface {
	Put(key, value []byte)
	Delete(key []byte)
}

// Batch is a list of puts and deletions that a write applies together. The zero value is empty.
type Batch struct {
	batch terrace.Batch
}

// BatchConfig configures a new batch.
type BatchConfig struct {
	InitialCapacity int // bytes
	GrowLimit       int // no effect
}

// MakeBatch returns an empty batch with space for n bytes.
func MakeBatch(n int) *Batch {
	return MakeBatchWithConfig(&BatchConfig{InitialCapacity: n})
}

// MakeBatchWithConfig returns an empty batch.
func MakeBatchWithConfig(config *BatchConfig) *Batch {
	batch := &Batch{}
	if config != nil {
		batch.batch.Grow(max(config.InitialCapacity, 0))
	}
	return batch
}

// Put adds a put. Key and value are copied.
func (b *Batch) Put(key, value []byte) { b.batch.Put(key, value) }

// Delete adds a deletion. The key is copied.
func (b *Batch) Delete(key []byte) { b.batch.Delete(key) }

// Len returns the number of operations.
func (b *Batch) Len() int { return b.batch.Len() }

// Reset removes all operations.
func (b *Batch) Reset() { b.batch.Reset() }

// Replay calls r for each operation, in their order.
func (b *Batch) Replay(r BatchReplay) error {
	return translateBatch(b.batch.Operations(r.Put, r.Delete))
}

// Dump returns the operations for Load, valid until the next change of the batch.
func (b *Batch) Dump() []byte { return b.batch.Records() }

// Load replaces the operations by those of Dump. Copies the bytes.
func (b *Batch) Load(data []byte) error { return translateBatch(b.batch.LoadRecords(data)) }

func translateBatch(err error) error {
	if engine, ok := err.(*terrace.Error); ok && engine.Kind == terrace.Corruption {
		return errors.NewErrCorrupted(storage.FileDesc{}, &ErrBatchCorrupted{engine.Message})
	}
	return err
}
