package terrace

// #include <stdlib.h>
// #include "terrace/terrace.h"
import "C"

import (
	"runtime"
	"strings"
	"unsafe"
)

// Options are the options of an open. The zero value, and nil, are the defaults: the database is
// created if it is missing.
type Options struct {
	ErrorIfMissing bool // do not create the database
	ErrorIfExists  bool // fail if the database exists
	ReadOnly       bool // write nothing, not even the file LOG

	// Compression is the codec of new blocks: "snappy", "none", "zstd", "zlib" or "deflate". Without
	// it, a database keeps the codec of its tables, and a new one gets snappy. LevelDB cannot read a
	// database with another codec than the first two.
	Compression string
	// MemoryBudget is the total memory budget in bytes for memtables, cached blocks and open tables.
	// With 0, all such databases share half of the memory of the process.
	MemoryBudget int
	// CacheSize is the capacity of the block cache in bytes; 0 is the engine's default.
	CacheSize int
	// BloomBits is the number of bits for each key in Bloom filters; 0 is the engine's default.
	BloomBits int

	WriteBufferSize      int // size of a memtable in bytes
	MaxFileSize          int // size of a table in bytes
	BlockSize            int // uncompressed size of a block in bytes
	BlockRestartInterval int // number of keys between two restart points
	MaxOpenFiles         int // number of tables that stay open

	ParanoidChecks bool // fail on the first damaged record, instead of omitting it
	ReuseLogs      bool // reuse the log and the manifest of a cleanly closed database

	// Memory is the place of a database in memory; nil means the file system.
	Memory *Memory
}

// Memory is a file system in memory, for tests. Its databases live until the last of their users
// forgets it.
type Memory struct {
	env *C.leveldb_env_t
}

// NewMemory creates a file system in memory.
func NewMemory() *Memory {
	memory := &Memory{C.terrace_create_memory_env()}
	runtime.AddCleanup(memory, func(env *C.leveldb_env_t) { C.terrace_env_destroy(env) }, memory.env)
	return memory
}

// engineOptions are options in the engine's form, with the objects that they refer to.
type engineOptions struct {
	options *C.leveldb_options_t
	name    *C.char
	cache   *C.leveldb_cache_t
	filter  *C.leveldb_filterpolicy_t
	memory  *Memory
}

// newEngineOptions translates options, and the path of a database.
func newEngineOptions(path string, options *Options) (*engineOptions, error) {
	if options == nil {
		options = &Options{}
	}
	if strings.IndexByte(path, 0) >= 0 {
		return nil, invalid("the path %q contains a zero byte", path)
	}
	if err := options.check(); err != nil {
		return nil, err
	}
	e := &engineOptions{options: C.terrace_options_create(), name: C.CString(path), memory: options.Memory}
	C.terrace_options_set_create_if_missing(e.options, boolean(!options.ErrorIfMissing && !options.ReadOnly))
	C.terrace_options_set_error_if_exists(e.options, boolean(options.ErrorIfExists))
	C.terrace_options_set_paranoid_checks(e.options, boolean(options.ParanoidChecks))
	C.terrace_options_set_reuse_logs(e.options, boolean(options.ReuseLogs))
	e.setSizes(options)
	if options.Memory != nil {
		C.terrace_options_set_env(e.options, options.Memory.env)
	}
	if options.Compression != "" {
		codec := C.CString(options.Compression)
		defer C.free(unsafe.Pointer(codec))
		if C.terrace_options_set_codec(e.options, codec) == 0 {
			e.free()
			return nil, invalid("there is no compression %q; use snappy, none, zstd, zlib or deflate", options.Compression)
		}
	}
	return e, nil
}

// check refuses negative sizes.
func (o *Options) check() error {
	sizes := []int{o.MemoryBudget, o.CacheSize, o.BloomBits, o.WriteBufferSize, o.MaxFileSize, o.BlockSize,
		o.BlockRestartInterval, o.MaxOpenFiles}
	for _, size := range sizes {
		if size < 0 {
			return invalid("an option has the negative value %d", size)
		}
	}
	return nil
}

// setSizes sets the options that are numbers. The engine moves a number out of bounds to the bound.
func (e *engineOptions) setSizes(options *Options) {
	if options.MemoryBudget > 0 {
		C.terrace_options_set_memory_budget(e.options, C.size_t(options.MemoryBudget))
	}
	if options.CacheSize > 0 {
		e.cache = C.terrace_cache_create_lru(C.size_t(options.CacheSize))
		C.terrace_options_set_cache(e.options, e.cache)
	}
	if options.BloomBits > 0 {
		e.filter = C.terrace_filterpolicy_create_bloom(cInt(options.BloomBits))
		C.terrace_options_set_filter_policy(e.options, e.filter)
	}
	if options.WriteBufferSize > 0 {
		C.terrace_options_set_write_buffer_size(e.options, C.size_t(options.WriteBufferSize))
	}
	if options.MaxFileSize > 0 {
		C.terrace_options_set_max_file_size(e.options, C.size_t(options.MaxFileSize))
	}
	if options.BlockSize > 0 {
		C.terrace_options_set_block_size(e.options, C.size_t(options.BlockSize))
	}
	if options.BlockRestartInterval > 0 {
		C.terrace_options_set_block_restart_interval(e.options, cInt(options.BlockRestartInterval))
	}
	if options.MaxOpenFiles > 0 {
		C.terrace_options_set_max_open_files(e.options, cInt(options.MaxOpenFiles))
	}
}

// cInt returns the number, or the largest one of its type.
func cInt(n int) C.int {
	return C.int(min(n, 1<<31-1))
}

// free frees the objects. The database that was opened with them is closed.
func (e *engineOptions) free() {
	C.terrace_options_destroy(e.options)
	C.free(unsafe.Pointer(e.name))
	if e.cache != nil {
		C.terrace_cache_destroy(e.cache)
	}
	if e.filter != nil {
		C.terrace_filterpolicy_destroy(e.filter)
	}
	runtime.KeepAlive(e.memory)
}
