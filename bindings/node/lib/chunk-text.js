'use strict'

// Maximum number of bytes that become one string. A part of a string keeps the whole one in memory,
// so a program that keeps one key keeps up to this number of bytes.
const TEXT_BYTES = 1024

/**
 * Short keys and values of an ASCII chunk as strings. A conversion takes nearly as long for a few bytes
 * as for 1 KiB, so several entries are converted together:
 *
 * ```text
 *   chunk   .. | key, value, key, value, key, v|alue, ..
 *              ^ start                         ^ end
 * ```
 */
class ChunkText {
  #chunk
  #text = ''
  #start = 0
  #end = 0

  constructor (chunk) {
    this.#chunk = chunk
  }

  /** Returns whether slice() can return all bytes from `start` to `end`. `start` never decreases. */
  has (start, end) {
    if (end > this.#end) {
      if (end > start + TEXT_BYTES) return false
      this.#start = start
      this.#end = Math.min(start + TEXT_BYTES, this.#chunk.length)
      this.#text = this.#chunk.latin1Slice(start, this.#end)
    }
    return true
  }

  slice (start, end) {
    return this.#text.slice(start - this.#start, end - this.#start)
  }
}

module.exports = { ChunkText }
