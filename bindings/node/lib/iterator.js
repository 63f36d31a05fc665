'use strict'

const { AbstractIterator } = require('abstract-level')
const ModuleError = require('module-error')
const binding = require('./binding')
const { ChunkText } = require('./chunk-text')
const { Entries } = require('./entries')
const { TerraceSnapshot } = require('./snapshot')

// Flags of the native part, in src/hot.rs.
const NO_FILL_CACHE = 1
const REVERSE = 8
const NO_KEYS = 16
const NO_VALUES = 32
const ALIGNED = 64

// In an aligned chunk, each key and each value begins at a multiple of so many bytes.
const ALIGNMENT = 8

// Numbers of entries that next() fetches: 1, 4, 16 and so on up to this one. A caller often wants
// only the first entries.
const MAX_ENTRIES = 256
const GROWTH = 4

// Greatest count that the native part takes. It is far above the number of entries of a chunk.
const MAX_NATIVE_COUNT = 0x7fffffff

// A chunk ends after the entry with which it exceeds this number of bytes.
const DEFAULT_CHUNK_BYTES = 65536

// Words before the lengths of a chunk: the number of entries, and flags.
const HEADER_WORDS = 2
const IS_LAST = 1
const IS_ASCII = 2

// Handle of an iterator over a closed snapshot. The base class refuses to read from it.
const NO_SCAN = 0

const ZERO = Buffer.alloc(1)
const noop = () => {}

/** Returns the smallest key after `key`. */
function after (key) {
  return typeof key === 'string' ? key + '\0' : Buffer.concat([Buffer.from(key.buffer, key.byteOffset, key.byteLength), ZERO])
}

/**
 * Returns the bounds of `options`: the lower one is included, the upper one is not. The options `gte`
 * and `lte` take precedence, as in every database of abstract-level.
 */
function bounds ({ gt, gte, lt, lte }) {
  return {
    lower: gte === undefined && gt !== undefined ? after(gt) : gte,
    upper: lte !== undefined ? after(lte) : lt
  }
}

class TerraceIterator extends AbstractIterator {
  #host
  #scan
  #decodeKey
  #decodeValue
  #alignment
  #chunkBytes
  #entries = 1
  #chunk = null
  #text = null // of an ASCII #chunk, if the caller wants strings
  #lengths = null
  #position = 0 // of the next entry in #lengths
  #offset = 0 // of the next entry in #chunk
  #isLast = false
  #ahead = null // promise of the chunk after this one
  #target // of a seek that waits for #ahead
  #signal = null
  #onAbort = null
  #isPlain // The program gets entries as #entry() returns them, and as many as there are.
  #direct = 0 // entries that the base class does not know

  constructor (level, host, options, snapshot, plainEncodings) {
    // Before the base class knows the iterator, because this may fail.
    const scan = openScan(host, options, snapshot)
    super(level, options)
    this.#host = host
    this.#scan = scan
    this.#decodeKey = decoder(options.keys, options.keyEncoding)
    this.#decodeValue = decoder(options.values, options.valueEncoding)
    this.#alignment = returnsBuffers(options) ? ALIGNMENT : 1
    this.#chunkBytes = chunkBytes(options.highWaterMarkBytes)
    this.#isPlain = this.limit === Infinity &&
      plainEncodings.decodes(options[AbstractIterator.keyEncoding]) &&
      plainEncodings.decodes(options[AbstractIterator.valueEncoding])
    host.freeWith(this, binding.scanFree, scan)
    if (options.signal != null) this.#listen(options.signal)
  }

  /** Number of entries that next() returns without a fetch. For tests. */
  get cached () {
    return this.#lengths === null ? 0 : (this.#lengths.length - this.#position) / 2
  }

  get count () {
    return super.count + this.#direct
  }

  [Symbol.asyncIterator] () {
    const generator = super[Symbol.asyncIterator]()
    return this.#isPlain ? new Entries(generator, () => this.#takeEntry()) : generator
  }

  _seek (target) {
    this.#chunk = this.#text = this.#lengths = null
    this.#entries = 1
    this.#isLast = false
    this.#target = target
    if (this.#ahead === null) this.#seekNow()
  }

  _next () {
    if (this.#hasEntry) return this.#entry()
    return this.#isLast ? undefined : this.#fetchOne()
  }

  async _nextv (size) {
    if (!this.#hasEntry && !this.#isLast) {
      await this.#fetch(size)
      // A caller of small chunks may next ask for more entries than such a chunk has.
      if (this.limit === Infinity && size >= MAX_ENTRIES) this.#readAhead(size)
    }
    const entries = []
    while (entries.length < size && this.#hasEntry) entries.push(this.#entry())
    return entries
  }

  async _close () {
    this.#chunk = this.#text = this.#lengths = null
    this.#signal?.removeEventListener('abort', this.#onAbort)
    this.#signal = null
    if (this.#ahead !== null) binding.scanAbort(this.#scan)
    binding.scanFree(this.#scan)
  }

  get #wantsStrings () {
    return this.#decodeKey === decodeString && this.#decodeValue === decodeString
  }

  get #hasEntry () {
    return this.#lengths !== null && this.#position < this.#lengths.length
  }

  #takeEntry () {
    if (!this.#hasEntry || this.#signal?.aborted) return undefined
    this.#direct++
    return this.#entry()
  }

  #entry () {
    const start = this.#offset
    const keyEnd = start + this.#lengths[this.#position]
    const valueStart = this.#aligned(keyEnd)
    const valueEnd = valueStart + this.#lengths[this.#position + 1]
    this.#offset = this.#aligned(valueEnd)
    this.#position += 2
    if (this.#text !== null && this.#text.has(start, valueEnd)) {
      return [this.#text.slice(start, keyEnd), this.#text.slice(keyEnd, valueEnd)]
    }
    return [this.#decodeKey(this.#chunk, start, keyEnd), this.#decodeValue(this.#chunk, valueStart, valueEnd)]
  }

  /** Returns the offset of the part after one that ends at `end`. */
  #aligned (end) {
    return this.#alignment === 1 ? end : Math.ceil(end / ALIGNMENT) * ALIGNMENT
  }

  async #fetchOne () {
    await this.#fetch(Math.min(this.#entries, this.limit - this.count))
    if (this.limit === Infinity && this.#entries === MAX_ENTRIES) this.#readAhead(MAX_ENTRIES)
    this.#entries = Math.min(this.#entries * GROWTH, MAX_ENTRIES)
    return this.#hasEntry ? this.#entry() : undefined
  }

  /** Replaces the chunk with the next one. */
  async #fetch (count) {
    const ahead = this.#ahead
    this.#ahead = null
    let chunk = ahead === null ? null : await ahead
    if (chunk === null || this.#target !== undefined) {
      if (this.#target !== undefined) this.#seekNow()
      chunk = await this.#take(count)
    }
    if (this.#signal?.aborted) throw aborted()
    this.#open(chunk)
  }

  /** Fetches the next chunk while the caller, who seems to want all entries, uses this one. */
  #readAhead (count) {
    if (this.#isLast) return
    this.#ahead = this.#take(count)
    this.#ahead.catch(noop) // The next fetch reports the error.
  }

  #take (count) {
    const bounded = Math.min(count, MAX_NATIVE_COUNT)
    return this.#host.task(binding.scanNext(this.#scan, bounded, this.#chunkBytes))
  }

  #open (chunk) {
    const words = new Uint32Array(chunk.buffer, chunk.byteOffset, HEADER_WORDS)
    const [count, flags] = words
    this.#lengths = new Uint32Array(chunk.buffer, chunk.byteOffset + 4 * HEADER_WORDS, 2 * count)
    this.#chunk = chunk
    this.#text = this.#wantsStrings && (flags & IS_ASCII) !== 0 ? new ChunkText(chunk) : null
    this.#offset = 4 * (HEADER_WORDS + 2 * count)
    this.#position = 0
    this.#isLast = (flags & IS_LAST) !== 0
  }

  #seekNow () {
    if (this.#scan !== NO_SCAN) binding.scanSeek(this.#scan, this.#target)
    this.#target = undefined
  }

  #listen (signal) {
    const scan = this.#scan
    this.#signal = signal
    this.#onAbort = () => scan !== NO_SCAN && binding.scanAbort(scan)
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }
}

/** Returns the size of a chunk for an option. Infinity counts as 0, as in classic-level. */
function chunkBytes (option) {
  if (typeof option !== 'number' || !(option >= 0)) return DEFAULT_CHUNK_BYTES
  return option === Infinity ? 0 : option
}

function openScan ({ db }, options, snapshot) {
  if (snapshot === TerraceSnapshot.CLOSED) return NO_SCAN
  const { lower, upper } = bounds(options)
  let flags = options.fillCache === true ? 0 : NO_FILL_CACHE
  if (options.reverse) flags |= REVERSE
  if (!options.keys) flags |= NO_KEYS
  if (!options.values) flags |= NO_VALUES
  if (returnsBuffers(options)) flags |= ALIGNED
  return binding.scanNew(db, flags, snapshot, lower, upper)
}

/** Returns true if a program gets slices of a chunk, which it may read as typed arrays. */
function returnsBuffers ({ keys, keyEncoding, values, valueEncoding }) {
  return (keys && keyEncoding !== 'utf8') || (values && valueEncoding !== 'utf8')
}

function aborted () {
  const error = new ModuleError('Operation has been aborted', { code: 'LEVEL_ABORTED' })
  error.name = 'AbortError'
  return error
}

function decoder (isWanted, encoding) {
  if (!isWanted) return noop
  return encoding === 'utf8' ? decodeString : decodeBuffer
}

function decodeString (chunk, start, end) {
  return chunk.utf8Slice(start, end)
}

function decodeBuffer (chunk, start, end) {
  return chunk.subarray(start, end)
}

module.exports = { TerraceIterator, bounds }
