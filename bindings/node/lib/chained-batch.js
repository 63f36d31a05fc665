'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const binding = require('./binding')
const { PendingOperations } = require('./pending-operations')

class TerraceChainedBatch extends AbstractChainedBatch {
  #host
  #batch = binding.batchNew()
  #pending = new PendingOperations()

  constructor (level, host) {
    super(level)
    this.#host = host
    host.freeWith(this, binding.batchFree, this.#batch)
  }

  _put (key, value) {
    this.#pending.put(this.#batch, key, value)
  }

  _del (key) {
    this.#pending.del(this.#batch, key)
  }

  _clear () {
    this.#pending.clear()
    binding.batchClear(this.#batch)
  }

  _write (options) {
    this.#pending.flush(this.#batch)
    return this.#host.writeBatch(this.#batch, options)
  }

  async _close () {
    this.#pending.clear()
    binding.batchFree(this.#batch)
  }
}

module.exports = { TerraceChainedBatch }
