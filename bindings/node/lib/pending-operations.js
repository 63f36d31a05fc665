'use strict'

const binding = require('./binding')

// Operations that cross to the native part at once, and the characters that a string of one may have.
const MAX_OPERATIONS = 128
const MAX_CHARACTERS = 4096

// Length of the value of a deletion, as in src/hot.rs.
const DELETION = 0xffffffff

const lengths = new Uint32Array(2 * MAX_OPERATIONS)
const lengthBytes = new Uint8Array(lengths.buffer)

/**
 * Operations of a batch that wait in JavaScript, because each call of the native part costs as much as
 * the copy of a short string. Strings of several operations cross as one:
 *
 * ```text
 *   put 'a' '12', del 'bc', put 'd' ''   ──>   text 'a12bcd', lengths 1 2, 2 DELETION, 1 0
 * ```
 *
 * Text that is not only ASCII crosses one by one. So do Buffers, which the program may change, and long
 * strings.
 */
class PendingOperations {
  #openBatch
  #text = ''
  #lengths = []

  /** `openBatch` returns the handle of the native batch. */
  constructor (openBatch) {
    this.#openBatch = openBatch
  }

  put (key, value) {
    if (!isShort(key) || !isShort(value)) {
      this.flush()
      binding.batchPut(this.#openBatch(), key, value)
      return
    }
    this.#text += key + value
    this.#add(key.length, value.length)
  }

  del (key) {
    if (!isShort(key)) {
      this.flush()
      binding.batchDel(this.#openBatch(), key)
      return
    }
    this.#text += key
    this.#add(key.length, DELETION)
  }

  #add (keyLength, valueLength) {
    if (this.#lengths.push(keyLength, valueLength) === lengths.length) this.flush()
  }

  /** Appends all operations to the native batch. */
  flush () {
    if (this.#lengths.length === 0) return
    const batch = this.#openBatch()
    const text = this.#text
    const own = this.#lengths
    this.clear()
    lengths.set(own)
    if (!binding.batchText(batch, text, lengthBytes, own.length / 2)) addOneByOne(batch, text, own)
  }

  clear () {
    this.#text = ''
    this.#lengths = []
  }
}

function isShort (part) {
  return typeof part === 'string' && part.length <= MAX_CHARACTERS
}

function addOneByOne (batch, text, own) {
  let start = 0
  for (let i = 0; i < own.length; i += 2) {
    const key = text.slice(start, start += own[i])
    if (own[i + 1] === DELETION) binding.batchDel(batch, key)
    else binding.batchPut(batch, key, text.slice(start, start += own[i + 1]))
  }
}

module.exports = { PendingOperations }
