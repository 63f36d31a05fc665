'use strict'

/**
 * Entries of an iterator for `for await`. The generator of the base class takes several turns of the
 * queue of promises for each entry, so entries of a fetched chunk go around it:
 *
 * ```text
 *   next() ── the chunk has an entry ──> a promise that is ready
 *      └───── otherwise ───────────────> generator of the base class, which fetches, reports errors
 *                                        and closes the iterator
 * ```
 */
class Entries {
  #generator
  #takeEntry
  #waiting = 0 // calls of the generator without a result
  #isDone = false

  /** `takeEntry` returns the next entry of the chunk, or undefined. */
  constructor (generator, takeEntry) {
    this.#generator = generator
    this.#takeEntry = takeEntry
  }

  next () {
    if (this.#waiting === 0 && !this.#isDone) {
      const value = this.#takeEntry()
      if (value !== undefined) return Promise.resolve({ value, done: false })
    }
    return this.#ask(this.#generator.next())
  }

  return (value) {
    this.#isDone = true
    return this.#ask(this.#generator.return(value))
  }

  throw (error) {
    this.#isDone = true
    return this.#ask(this.#generator.throw(error))
  }

  [Symbol.asyncIterator] () {
    return this
  }

  async #ask (answer) {
    this.#waiting++
    try {
      const result = await answer
      if (result.done) this.#isDone = true
      return result
    } finally {
      this.#waiting--
    }
  }
}

if (typeof Symbol.asyncDispose === 'symbol') {
  Entries.prototype[Symbol.asyncDispose] = async function () {
    await this.return()
  }
}

module.exports = { Entries }
