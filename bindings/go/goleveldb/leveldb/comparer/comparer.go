// Package comparer has the order of keys.
package comparer

import "bytes"

// BasicComparer compares keys.
type BasicComparer interface {
	// Compare returns a negative number if a is before b, 0 if they are equal, and otherwise a
	// positive number.
	Compare(a, b []byte) int
}

// Comparer is an order of keys with a name, which a database stores.
type Comparer interface {
	BasicComparer
	Name() string
	// Separator appends to dst a short key x with a <= x < b, or returns nil for a itself.
	Separator(dst, a, b []byte) []byte
	// Successor appends to dst a short key x with x >= b, or returns nil for b itself.
	Successor(dst, b []byte) []byte
}

// DefaultComparer is LevelDB's bytewise order.
var DefaultComparer = bytewise{}

type bytewise struct{}

func (bytewise) Compare(a, b []byte) int { return bytes.Compare(a, b) }

func (bytewise) Name() string { return "leveldb.BytewiseComparator" }

func (bytewise) Separator(dst, a, b []byte) []byte {
	shared := 0
	for shared < len(a) && shared < len(b) && a[shared] == b[shared] {
		shared++
	}
	if shared < len(a) && shared < len(b) && a[shared] < 0xff && a[shared]+1 < b[shared] {
		return append(append(dst, a[:shared]...), a[shared]+1)
	}
	return nil
}

func (bytewise) Successor(dst, b []byte) []byte {
	for i, c := range b {
		if c != 0xff {
			return append(append(dst, b[:i]...), c+1)
		}
	}
	return nil
}
