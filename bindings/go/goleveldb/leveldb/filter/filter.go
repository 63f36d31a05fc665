// Package filter has the Bloom filter of tables.
package filter

import "github.com/syndtr/goleveldb/leveldb/util"

// Buffer is the place of a generated filter.
type Buffer interface {
	Alloc(n int) []byte
	Write(p []byte) (n int, err error)
	WriteByte(c byte) error
}

// Filter tells which keys a table does not contain.
type Filter interface {
	Name() string
	NewGenerator() FilterGenerator
	// Contains returns false only for a key that was not added.
	Contains(filter, key []byte) bool
}

// FilterGenerator makes a filter from keys.
type FilterGenerator interface {
	Add(key []byte)
	Generate(b Buffer)
}

// NewBloomFilter returns a Bloom filter. A database that is opened with it has filters with this number
// of bits for each key.
func NewBloomFilter(bitsPerKey int) Filter { return bloom(bitsPerKey) }

// BitsPerKey returns the argument of NewBloomFilter, or 0 for another filter.
func BitsPerKey(f Filter) int {
	bits, _ := f.(bloom)
	return int(bits)
}

type bloom int

func (bloom) Name() string { return "leveldb.BuiltinBloomFilter" }

func (b bloom) NewGenerator() FilterGenerator { return &bloomGenerator{bits: int(b)} }

const hashSeed = 0xbc9f1d34

// probes calls visit with the bits of a key, until it returns false.
func probes(hash uint32, count int, bits uint32, visit func(bit uint32) bool) bool {
	delta := hash>>17 | hash<<15
	for range count {
		if !visit(hash % bits) {
			return false
		}
		hash += delta
	}
	return true
}

func (b bloom) Contains(filter, key []byte) bool {
	if len(filter) < 2 {
		return false
	}
	array, count := filter[:len(filter)-1], int(filter[len(filter)-1])
	if count > 30 { // Reserved for other encodings, which may contain the key.
		return true
	}
	isSet := func(bit uint32) bool { return array[bit/8]&(1<<(bit%8)) != 0 }
	return probes(util.Hash(key, hashSeed), count, uint32(len(array))*8, isSet)
}

type bloomGenerator struct {
	bits   int
	hashes []uint32
}

func (g *bloomGenerator) Add(key []byte) { g.hashes = append(g.hashes, util.Hash(key, hashSeed)) }

func (g *bloomGenerator) Generate(b Buffer) {
	count := min(max(g.bits*69/100, 1), 30) // ln 2 times the bits of a key
	length := (max(len(g.hashes)*g.bits, 64) + 7) / 8
	filter := b.Alloc(length + 1)
	clear(filter)
	filter[length] = byte(count)
	set := func(bit uint32) bool {
		filter[bit/8] |= 1 << (bit % 8)
		return true
	}
	for _, hash := range g.hashes {
		probes(hash, count, uint32(length)*8, set)
	}
	g.hashes = g.hashes[:0]
}
