package terrace

/*
#include <string.h>
#include "terrace/terrace.h"

#cgo noescape terrace_go_take
#cgo nocallback terrace_go_take

// Positions before a chunk is taken.
enum { go_on, first, last, seek, seek_after, seek_before };

typedef struct {
  size_t entries; // number of entries in the buffer
  size_t bytes;   // their length
  size_t needed;  // length of the current entry, if it alone is longer than the buffer
  uint8_t valid;  // whether an entry or an error follows
} terrace_go_chunk;

static void terrace_go_position(leveldb_iterator_t* it, int position, const char* key, size_t len) {
  size_t found_len;
  switch (position) {
    case first: terrace_iter_seek_to_first(it); break;
    case last: terrace_iter_seek_to_last(it); break;
    case seek: terrace_iter_seek(it, key, len); break;
    case seek_after: {
      terrace_iter_seek(it, key, len);
      const char* found = terrace_iter_valid(it) ? terrace_iter_key(it, &found_len) : NULL;
      if (found != NULL && found_len == len && memcmp(found, key, len) == 0) terrace_iter_next(it);
      break;
    }
    case seek_before:
      terrace_iter_seek(it, key, len);
      if (terrace_iter_valid(it)) terrace_iter_prev(it); else terrace_iter_seek_to_last(it);
      break;
  }
}

static uint8_t terrace_go_has_error(leveldb_iterator_t* it) {
  char* error = NULL;
  terrace_iter_get_error(it, &error);
  terrace_free(error);
  return error != NULL;
}

// Moves the iterator and copies entries, in one crossing. The key may be in the buffer.
static void terrace_go_take(leveldb_iterator_t* it, int position, const char* key, size_t len, uint8_t forward,
                            size_t count, char* buffer, size_t capacity, terrace_go_chunk* chunk, char** errptr) {
  terrace_go_position(it, position, key, len);
  chunk->bytes = terrace_iter_take(it, forward, count, buffer, capacity, &chunk->entries);
  chunk->valid = terrace_iter_valid(it);
  chunk->needed = 0;
  if (chunk->entries > 0) {
    if (!chunk->valid) chunk->valid = terrace_go_has_error(it); // The next chunk has the error.
    return;
  }
  terrace_iter_get_error(it, errptr);
  if (*errptr == NULL && chunk->valid) {
    size_t key_len, value_len;
    terrace_iter_key(it, &key_len);
    terrace_iter_value(it, &value_len);
    chunk->needed = 8 + key_len + value_len;
  }
}

// The options of an iterator. NULL means no bound.
static leveldb_readoptions_t* terrace_go_read_options(
    const leveldb_snapshot_t* snapshot, const char* lower, size_t lower_len, const char* upper, size_t upper_len,
    const char* prefix, size_t prefix_len, uint8_t fill_cache, uint8_t verify_checksums) {
  leveldb_readoptions_t* options = terrace_readoptions_create();
  terrace_readoptions_set_snapshot(options, snapshot);
  terrace_readoptions_set_lower_bound(options, lower, lower_len);
  terrace_readoptions_set_upper_bound(options, upper, upper_len);
  if (prefix_len > 0) terrace_readoptions_set_prefix(options, prefix, prefix_len);
  terrace_readoptions_set_fill_cache(options, fill_cache);
  terrace_readoptions_set_verify_checksums(options, verify_checksums);
  return options;
}
*/
import "C"

import (
	"encoding/binary"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
)

// IterOptions are the options of an iterator; nil means all entries.
type IterOptions struct {
	Start  []byte // first key; nil means no bound
	Limit  []byte // key after the last one; nil means no bound
	Prefix []byte // start of all keys

	DontFillCache   bool // do not keep the blocks in the cache
	VerifyChecksums bool // compare the checksum of each block, also of a cached one
}

// engineOptions returns the options in the engine's form.
func (o *IterOptions) engineOptions(snapshot *C.leveldb_snapshot_t) *C.leveldb_readoptions_t {
	if o == nil {
		o = &IterOptions{}
	}
	return C.terrace_go_read_options(snapshot, bound(o.Start), length(o.Start), bound(o.Limit), length(o.Limit),
		pointer(o.Prefix), length(o.Prefix), boolean(!o.DontFillCache), boolean(o.VerifyChecksums))
}

// check refuses keys that the engine cannot have.
func (o *IterOptions) check() error {
	if o == nil {
		return nil
	}
	if err := checkLengths(o.Start, nil); err != nil {
		return err
	}
	return checkLengths(o.Limit, o.Prefix)
}

// Iterator is a cursor over the entries of one state of a database. A new iterator is before the first
// entry. It fetches entries in chunks, the longer the further a program iterates.
//
//	it := db.NewIterator(&terrace.IterOptions{Prefix: []byte("CH/")})
//	defer it.Release()
//	for it.Next() {
//		fmt.Printf("%s: %s\n", it.Key(), it.Value())
//	}
//	return it.Error()
type Iterator struct {
	core  *iterCore
	owner *DB // not collected before its iterators; nil for an iterator that could not be created
	err   error

	buffer     []byte
	rest       []byte // entries of the chunk after the current one, in the direction of the chunk
	left       int    // their number
	forward    bool   // direction of the chunk
	more       bool   // whether the engine has entries or an error after the chunk
	size       int    // number of entries of the next chunk
	position   position
	key, value []byte
}

type position uint8

const (
	beforeFirst position = iota
	atEntry
	afterLast
)

const (
	maxChunkEntries = 256
	maxChunkBytes   = 64 << 10
	minChunkBytes   = 512
)

// iterCore is the engine's iterator, which ends with its release or with its database.
type iterCore struct {
	childLinks
	mutex    sync.Mutex
	it       *C.leveldb_iterator_t
	ended    atomic.Bool // set before the iterator is freed
	released atomic.Bool // ended by Release
}

func (c *iterCore) kind() childKind { return iteratorChild }

func (c *iterCore) end() {
	c.ended.Store(true)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	C.terrace_iter_destroy(c.it)
	c.it = nil
}

// newIterator lists an iterator of the engine as a child of its database.
func (db *DB) newIterator(it *C.leveldb_iterator_t) *Iterator {
	h, core := db.handle, &iterCore{it: it}
	if !h.children.add(core) {
		core.end()
		return &Iterator{core: core, err: ErrClosed}
	}
	new := &Iterator{core: core, owner: db, size: 1}
	runtime.AddCleanup(new, func(core *iterCore) { h.release(core) }, core)
	return new
}

// failedIterator returns an iterator without entries.
func failedIterator(err error) *Iterator {
	return &Iterator{core: &iterCore{}, err: err}
}

func (h *handle) release(core *iterCore) {
	core.end()
	h.children.remove(core)
}

// NewIterator creates an iterator over the current state. An error is that of the iterator.
func (db *DB) NewIterator(options *IterOptions) *Iterator {
	if err := options.check(); err != nil {
		return failedIterator(err)
	}
	if !db.gate.enter() {
		return failedIterator(ErrClosed)
	}
	defer db.gate.leave()
	reads := options.engineOptions(nil)
	defer C.terrace_readoptions_destroy(reads)
	return db.newIterator(C.terrace_create_iterator(db.handle.db, reads))
}

// Release ends the iterator. A second call has no effect.
func (it *Iterator) Release() {
	if it.owner == nil || it.core.ended.Load() {
		it.forget()
		return
	}
	it.core.released.Store(true)
	it.owner.release(it.core)
	it.forget()
}

// First moves to the first entry. Reports whether there is one, as all moves do.
func (it *Iterator) First() bool { return it.move(C.first, nil, true) }

// Last moves to the last entry.
func (it *Iterator) Last() bool { return it.move(C.last, nil, false) }

// Seek moves to the first entry whose key is not less than key.
func (it *Iterator) Seek(key []byte) bool {
	if len(key) > maxLen {
		it.err = checkLengths(key, nil)
		it.forget()
		return false
	}
	return it.move(C.seek, key, true)
}

// Next moves to the next entry; from before the first entry, to the first.
func (it *Iterator) Next() bool {
	switch {
	case it.position == afterLast:
		return false
	case it.position == beforeFirst:
		return it.First()
	case !it.forward:
		return it.move(C.seek_after, it.key, true)
	}
	return it.step()
}

// Prev moves to the previous entry; from after the last entry, to the last.
func (it *Iterator) Prev() bool {
	switch {
	case it.position == beforeFirst:
		return false
	case it.position == afterLast:
		return it.Last()
	case it.forward:
		return it.move(C.seek_before, it.key, false)
	}
	return it.step()
}

// Valid reports whether the iterator is at an entry.
func (it *Iterator) Valid() bool { return it.position == atEntry && !it.core.ended.Load() }

// Key returns the key of the current entry, valid until the next move; nil without an entry.
func (it *Iterator) Key() []byte { return it.key }

// Value returns the value of the current entry, valid until the next move; nil without an entry.
func (it *Iterator) Value() []byte { return it.value }

// Error returns the first error of a move; nil at the end of the entries. A move after Release fails with
// ErrReleased, and a move after the end of the database with ErrClosed.
func (it *Iterator) Error() error { return it.err }

// All returns the entries from the first one on, for a loop with range. Slices are valid during one
// pass of the loop.
func (it *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok; ok = it.Next() {
			if !yield(it.key, it.value) {
				return
			}
		}
	}
}

// move positions the iterator and takes the first chunk from there.
func (it *Iterator) move(position C.int, key []byte, forward bool) bool {
	it.forward, it.size = forward, 1
	return it.fill(position, key)
}

// step goes to the next entry in the direction of the chunk.
func (it *Iterator) step() bool {
	if it.core.ended.Load() {
		return it.fail()
	}
	if it.left > 0 {
		it.parse()
		return true
	}
	if !it.more {
		it.leave()
		return false
	}
	it.size = min(4*it.size, maxChunkEntries)
	return it.fill(C.go_on, nil)
}

// fill takes a chunk and goes to its first entry.
func (it *Iterator) fill(position C.int, key []byte) bool {
	core := it.core
	core.mutex.Lock()
	defer core.mutex.Unlock()
	if core.it == nil || it.err != nil {
		return it.fail()
	}
	it.grow(min(it.size*256, maxChunkBytes))
	var chunk C.terrace_go_chunk
	var cause *C.char
	C.terrace_go_take(core.it, position, pointer(key), length(key), boolean(it.forward), C.size_t(it.size),
		pointer(it.buffer), length(it.buffer), &chunk, &cause)
	if chunk.needed > 0 {
		it.grow(int(chunk.needed))
		C.terrace_go_take(core.it, C.go_on, nil, 0, boolean(it.forward), C.size_t(it.size),
			pointer(it.buffer), length(it.buffer), &chunk, &cause)
	}
	it.more = chunk.valid != 0
	if err := takeError(cause); err != nil {
		it.err = err
		it.more = false
	}
	if chunk.entries == 0 {
		it.leave()
		return false
	}
	it.rest, it.left = it.buffer[:chunk.bytes], int(chunk.entries)
	it.position = atEntry
	it.parse()
	return true
}

// fail is the result of a move after the end or an error of the iterator.
func (it *Iterator) fail() bool {
	it.forget()
	switch {
	case it.err != nil:
	case it.core.released.Load():
		it.err = ErrReleased
	default:
		it.err = ErrClosed
	}
	return false
}

// grow makes the buffer at least as long as n bytes. The key in the old buffer stays usable.
func (it *Iterator) grow(n int) {
	if n > len(it.buffer) {
		it.buffer = make([]byte, max(n, minChunkBytes))
	}
}

// parse goes to the first entry of the rest of the chunk.
func (it *Iterator) parse() {
	keyEnd := 8 + int(binary.LittleEndian.Uint32(it.rest))
	valueEnd := keyEnd + int(binary.LittleEndian.Uint32(it.rest[4:]))
	it.key = it.rest[8:keyEnd:keyEnd]
	it.value = it.rest[keyEnd:valueEnd:valueEnd]
	it.rest = it.rest[valueEnd:]
	it.left--
}

// leave goes beyond the last entry in the direction of the chunk.
func (it *Iterator) leave() {
	it.forget()
	if it.forward {
		it.position = afterLast
	}
}

// forget removes the current entry and the chunk.
func (it *Iterator) forget() {
	it.position, it.key, it.value, it.rest, it.left = beforeFirst, nil, nil, nil, 0
}
