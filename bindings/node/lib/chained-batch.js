'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const binding = require('./binding')
const { PendingOperations } = require('./pending-operations')

// Handle of a batch without native memory.
const NO_BATCH = 0

class TerraceChainedBatch extends AbstractChainedBatch {
  #host
  #batch = NO_BATCH
  #pending = new PendingOperations(() => this.#openBatch())

  constructor (level, host) {
    super(level)
    this.#host = host
  }

  /** Returns the native batch. The garbage collector frees that of a forgotten object. */
  #openBatch () {
    if (this.#batch === NO_BATCH) {
      this.#batch = binding.batchNew()
      this.#host.freeWith(this, binding.batchFree, this.#batch)
    }
    return this.#batch
  }

  _put (key, value) {
    this.#pending.put(key, value)
  }

  _del (key) {
    this.#pending.del(key)
  }

  _clear () {
    this.#pending.clear()
    if (this.#batch !== NO_BATCH) binding.batchClear(this.#batch)
  }

  _write (options) {
    // The write ends with a close, so this batch needs no finalizer.
    if (this.#batch === NO_BATCH) this.#batch = binding.batchNew()
    this.#pending.flush()
    return this.#host.writeBatch(this.#batch, options)
  }

  async _close () {
    this.#pending.clear()
    if (this.#batch !== NO_BATCH) binding.batchFree(this.#batch)
  }
}

module.exports = { TerraceChainedBatch }
