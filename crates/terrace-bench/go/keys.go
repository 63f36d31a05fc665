package main

import (
	"bytes"
	"encoding/binary"
	"math"
)

// SplitMix64 generates all random numbers of a workload. This file generates the same keys and values as
// src/workload/keys.rs. Tests of both programs compare them with tests/generators.txt.
type SplitMix64 struct{ state uint64 }

func (s *SplitMix64) number() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := (s.state ^ s.state>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// fraction returns the next number in [0, 1).
func (s *SplitMix64) fraction() float64 { return float64(s.number()>>11) / (1 << 53) }

// Eight digits are written and read in one step; src/workload/keys.rs shows how. eight is 10^8, and zeros is the digit 0
// eight times.
const (
	eight = 100_000_000
	zeros = 0x3030303030303030
)

// writeKey fills key with n in decimal.
func writeKey(n uint64, key []byte) {
	for len(key) >= 8 {
		at := len(key) - 8
		binary.LittleEndian.PutUint64(key[at:], eightDigits(n%eight))
		key, n = key[:at], n/eight
	}
	for i := len(key) - 1; i >= 0; i-- {
		key[i] = '0' + byte(n%10)
		n /= 10
	}
}

func eightDigits(n uint64) uint64 {
	fours := n/10_000 | n%10_000<<32
	hundreds := fours * 5243 >> 19 & 0x7f_0000_007f
	twos := hundreds | (fours-100*hundreds)<<16
	tens := twos * 103 >> 10 & 0x000f_000f_000f_000f
	return tens | (twos-10*tens)<<8 | zeros
}

// makeMissing turns key into a key that was never put and sorts next to the original key.
func makeMissing(key []byte) { key[len(key)-1] = '.' }

// readKey returns the number of key. ok is false if key is not a key of a number.
func readKey(key []byte) (n uint64, ok bool) {
	for ; len(key) >= 8; key = key[8:] {
		next, ok := readEight(binary.LittleEndian.Uint64(key))
		if !ok || n > (math.MaxUint64-next)/eight {
			return 0, false
		}
		n = n*eight + next
	}
	for _, digit := range key {
		if digit < '0' || digit > '9' || n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + uint64(digit-'0')
	}
	return n, true
}

func readEight(digits uint64) (n uint64, ok bool) {
	ones := digits ^ zeros
	if (ones|(ones+0x0606060606060606))&0xf0f0f0f0f0f0f0f0 != 0 {
		return 0, false
	}
	twos := (ones*10 + ones>>8) & 0x00ff00ff00ff00ff
	fours := (twos*100 + twos>>16) & 0x0000ffff0000ffff
	return (fours*10_000 + fours>>32) & 0xffffffff, true
}

// uniqueOf returns the number of bytes before a value of size bytes repeats itself.
func uniqueOf(size int, compress float64) int {
	return min(max(int(float64(size)*compress), 8), size)
}

// writeValue fills value with the value of n, which is always the same.
func writeValue(n uint64, compress float64, value []byte) {
	unique := uniqueOf(len(value), compress)
	words := SplitMix64{n ^ 0x5bd1e995}
	var word [8]byte
	for rest := value[:unique]; len(rest) > 0; rest = rest[min(8, len(rest)):] {
		if len(rest) >= 8 {
			binary.LittleEndian.PutUint64(rest, words.number())
			continue
		}
		binary.LittleEndian.PutUint64(word[:], words.number())
		copy(rest, word[:])
	}
	for at := unique; at < len(value); at += unique {
		copy(value[at:], value[:unique])
	}
}

// matches returns true if value is the value of n. The first bytes are unique, and the value repeats
// them up to its end.
func matches(n uint64, compress float64, value []byte) bool {
	unique := uniqueOf(len(value), compress)
	words := SplitMix64{n ^ 0x5bd1e995}
	rest := value[:unique]
	for ; len(rest) >= 8; rest = rest[8:] {
		if binary.LittleEndian.Uint64(rest) != words.number() {
			return false
		}
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], words.number())
	return bytes.Equal(rest, word[:len(rest)]) && bytes.Equal(value[unique:], value[:len(value)-unique])
}

// Zipf draws ranks of which the first are the most frequent.
type Zipf struct{ items, zeta, eta float64 }

const theta = 0.99

func newZipf(items uint64) Zipf { return zipfWithZeta(float64(items), zeta(items)) }

// zipfToScramble returns ranks for keys that are scrambled. It has 10^10 ranks, so that each key gets
// ranks of every frequency. The sum is YCSB's constant.
func zipfToScramble() Zipf { return zipfWithZeta(1e10, 26.46902820178302) }

func zipfWithZeta(items, zetaOfItems float64) Zipf {
	eta := (1 - math.Pow(2/items, 1-theta)) / (1 - zeta(2)/zetaOfItems)
	return Zipf{items, zetaOfItems, eta}
}

func zeta(items uint64) (sum float64) {
	for i := uint64(1); i <= items; i++ {
		sum += math.Pow(float64(i), -theta)
	}
	return sum
}

func (z Zipf) rank(random *SplitMix64) uint64 {
	u := random.fraction()
	if u*z.zeta < 1 {
		return 0
	}
	if u*z.zeta < 1+math.Pow(0.5, theta) {
		return 1
	}
	rank := z.items * toAlpha(float64(z.eta*u)-z.eta+1) // the conversion forbids a fused multiply-add
	return min(uint64(rank), uint64(z.items)-1)
}

// toAlpha returns x to the power of 1/(1-theta) = 100. It multiplies, because languages round powers differently.
func toAlpha(x float64) float64 {
	square := func(x float64) float64 { return x * x }
	x4 := square(square(x))
	x32 := square(square(square(x4)))
	return square(x32) * x32 * x4
}

// scramble returns the key number of a rank: FNV-1a of its bytes, without the sign, modulo keyspace.
func scramble(rank, keyspace uint64) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for shift := 0; shift < 64; shift += 8 {
		hash = (hash ^ rank>>shift&0xff) * 0x100000001b3
	}
	if int64(hash) < 0 {
		hash = -hash
	}
	return hash % keyspace
}
