package util

import "encoding/binary"

// Hash returns LevelDB's hash of data, which its Bloom filters store.
func Hash(data []byte, seed uint32) uint32 {
	const multiplier = 0xc6a4a793
	hash := seed ^ uint32(len(data))*multiplier
	for ; len(data) >= 4; data = data[4:] {
		hash = (hash + binary.LittleEndian.Uint32(data)) * multiplier
		hash ^= hash >> 16
	}
	if len(data) == 0 {
		return hash
	}
	for i, b := range data {
		hash += uint32(b) << (8 * i)
	}
	hash *= multiplier
	return hash ^ hash>>24
}
