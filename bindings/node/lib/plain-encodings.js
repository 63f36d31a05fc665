'use strict'

/**
 * Encodings that change nothing: `encode` returns a string as it is, and `decode` returns every value
 * as it is. Calls whose encodings are plain skip the code of the base class that serves all others.
 */
class PlainEncodings {
  #utf8
  #decoding

  /** `level` has just been made: a later encoding of the program may get one of these names. */
  constructor (level) {
    this.#utf8 = level.keyEncoding('utf8')
    this.#decoding = new Set([this.#utf8, level.keyEncoding('buffer'), level.keyEncoding('view')])
  }

  /** Returns true if `level` stores strings as they are, without options. */
  encodesStrings (level) {
    return level.keyEncoding() === this.#utf8 && level.valueEncoding() === this.#utf8
  }

  /** Returns true if values with the format of `encoding` are those that a program gets. */
  decodes (encoding) {
    return this.#decoding.has(encoding)
  }
}

module.exports = { PlainEncodings }
