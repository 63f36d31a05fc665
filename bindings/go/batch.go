package terrace

import (
	"encoding/binary"
	"fmt"
)

// batchHeader is the length of the header of an encoded batch: a sequence number, which the engine
// sets, and the number of operations.
const batchHeader = 12

// Batch is a list of puts and deletions that a write applies together. The zero value is empty. The
// batch has LevelDB's stored form, and crosses to the engine in one call.
type Batch struct {
	bytes []byte
	count uint32
	err   error
}

// Put adds a put. Key and value are copied.
func (b *Batch) Put(key, value []byte) {
	if b.begin(checkLengths(key, value)) {
		b.bytes = append(b.bytes, 1)
		b.bytes = appendPart(b.bytes, key)
		b.bytes = appendPart(b.bytes, value)
	}
}

// Delete adds a deletion. The key is copied.
func (b *Batch) Delete(key []byte) {
	if b.begin(checkLengths(key, nil)) {
		b.bytes = append(b.bytes, 0)
		b.bytes = appendPart(b.bytes, key)
	}
}

// begin prepares the batch for one operation more. A refused operation makes the batch unusable.
func (b *Batch) begin(err error) bool {
	if b.err == nil {
		b.err = err
	}
	if b.err != nil {
		return false
	}
	if len(b.bytes) == 0 {
		b.bytes = append(b.bytes, make([]byte, batchHeader)...)
	}
	b.count++
	return true
}

func appendPart(bytes, part []byte) []byte {
	return append(binary.AppendUvarint(bytes, uint64(len(part))), part...)
}

// Len returns the number of operations.
func (b *Batch) Len() int { return int(b.count) }

// Size returns the number of bytes of the encoded batch.
func (b *Batch) Size() int { return len(b.bytes) }

// Grow makes space for n bytes more.
func (b *Batch) Grow(n int) {
	if n > cap(b.bytes)-len(b.bytes) {
		b.bytes = append(make([]byte, 0, len(b.bytes)+n), b.bytes...)
	}
}

// Reset removes all operations.
func (b *Batch) Reset() {
	b.bytes, b.count, b.err = b.bytes[:0], 0, nil
}

// Operations calls put or deleted for each operation, in their order. The slices are valid during the
// call only.
func (b *Batch) Operations(put func(key, value []byte), deleted func(key []byte)) error {
	if b.err != nil {
		return b.err
	}
	_, err := parseOperations(b.Records(), put, deleted)
	return err
}

// Bytes returns the batch in LevelDB's stored form, valid until the next change of the batch; nil after
// an operation that was refused.
func (b *Batch) Bytes() []byte {
	encoded, err := b.encoded()
	if err != nil {
		return nil
	}
	return encoded
}

// Records returns the stored form without its header.
func (b *Batch) Records() []byte {
	if len(b.bytes) == 0 {
		return nil
	}
	return b.bytes[batchHeader:]
}

// Load replaces the operations by those of a batch in LevelDB's stored form. Copies the bytes. Invalid
// bytes are an error and leave the batch empty.
func (b *Batch) Load(bytes []byte) error {
	b.Reset()
	if len(bytes) < batchHeader {
		return &Error{Corruption, "a batch has less than 12 bytes"}
	}
	if err := b.LoadRecords(bytes[batchHeader:]); err != nil {
		return err
	}
	if count := binary.LittleEndian.Uint32(bytes[8:]); count != b.count {
		found := b.count
		b.Reset()
		return &Error{Corruption, fmt.Sprintf("a batch has %d operations, its header says %d", found, count)}
	}
	return nil
}

// LoadRecords is Load for a stored form without its header.
func (b *Batch) LoadRecords(records []byte) error {
	b.Reset()
	count, err := parseOperations(records, func(_, _ []byte) {}, func([]byte) {})
	if err != nil {
		return err
	}
	b.bytes = append(append(b.bytes, make([]byte, batchHeader)...), records...)
	b.count = count
	return nil
}

// Append adds the operations of another batch.
func (b *Batch) Append(other *Batch) {
	if other.err != nil && b.err == nil {
		b.err = other.err
	}
	if other.count == 0 || b.err != nil {
		return
	}
	if len(b.bytes) == 0 {
		b.bytes = append(b.bytes, make([]byte, batchHeader)...)
	}
	b.bytes = append(b.bytes, other.bytes[batchHeader:]...)
	b.count += other.count
}

// encoded returns the stored form, with its number of operations.
func (b *Batch) encoded() ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	if len(b.bytes) == 0 {
		b.bytes = append(b.bytes, make([]byte, batchHeader)...)
	}
	binary.LittleEndian.PutUint32(b.bytes[8:], b.count)
	return b.bytes, nil
}

// parseOperations calls put or deleted for each operation, and returns their number.
func parseOperations(bytes []byte, put func(key, value []byte), deleted func(key []byte)) (count uint32, err error) {
	for ; len(bytes) > 0; count++ {
		kind := bytes[0]
		if kind > 1 {
			return count, &Error{Corruption, fmt.Sprintf("a batch has an unknown operation %d", kind)}
		}
		key, rest, err := parsePart(bytes[1:])
		if err != nil {
			return count, err
		}
		if kind == 0 {
			deleted(key)
			bytes = rest
			continue
		}
		value, rest, err := parsePart(rest)
		if err != nil {
			return count, err
		}
		put(key, value)
		bytes = rest
	}
	return count, nil
}

// parsePart returns the key or value at the start of bytes, and the bytes after it.
func parsePart(bytes []byte) (part, rest []byte, err error) {
	n, used := binary.Uvarint(bytes)
	if used <= 0 || n > uint64(len(bytes)-used) {
		return nil, nil, &Error{Corruption, "a batch has a length beyond its end"}
	}
	end := used + int(n)
	return bytes[used:end], bytes[end:], nil
}
