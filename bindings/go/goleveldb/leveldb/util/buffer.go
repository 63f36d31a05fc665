package util

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"sync"
)

// Buffer is a bytes.Buffer that can also reserve space.
type Buffer struct {
	bytes.Buffer
}

// NewBuffer returns a buffer with the contents buf, which it owns afterwards.
func NewBuffer(buf []byte) *Buffer {
	return &Buffer{*bytes.NewBuffer(buf)}
}

// Alloc appends n bytes and returns them for the caller to fill.
func (b *Buffer) Alloc(n int) []byte {
	b.Grow(n)
	start := b.Len()
	b.Write(b.AvailableBuffer()[:n]) // A write of these bytes to themselves only moves the end.
	return b.Bytes()[start:]
}

// BufferPool is a pool of byte slices.
type BufferPool struct {
	pool     sync.Pool
	baseline int
}

// NewBufferPool creates a pool whose slices have at least the capacity baseline.
func NewBufferPool(baseline int) *BufferPool {
	return &BufferPool{baseline: baseline}
}

// Get returns a slice of the length n.
func (p *BufferPool) Get(n int) []byte {
	if p != nil {
		if pooled, _ := p.pool.Get().(*[]byte); pooled != nil && cap(*pooled) >= n {
			return (*pooled)[:n]
		}
		return make([]byte, n, max(n, p.baseline))
	}
	return make([]byte, n)
}

// Put gives a slice back.
func (p *BufferPool) Put(b []byte) {
	if p != nil && cap(b) > 0 {
		p.pool.Put(&b)
	}
}

// String describes the pool.
func (p *BufferPool) String() string {
	if p == nil {
		return "<nil>"
	}
	return fmt.Sprintf("BufferPool{baseline: %d}", p.baseline)
}

// CRC is a CRC-32C checksum.
type CRC uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewCRC returns the checksum of b.
func NewCRC(b []byte) CRC { return CRC(0).Update(b) }

// Update returns the checksum of the earlier bytes and b.
func (c CRC) Update(b []byte) CRC { return CRC(crc32.Update(uint32(c), castagnoli, b)) }

// Value returns the masked checksum, as LevelDB's files store it.
func (c CRC) Value() uint32 { return (uint32(c)>>15 | uint32(c)<<17) + 0xa282ead8 }
