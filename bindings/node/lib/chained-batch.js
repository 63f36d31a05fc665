'use strict'

const { AbstractChainedBatch } = require('abstract-level')
const binding = require('./binding')

class TerraceChainedBatch extends AbstractChainedBatch {
  #host
  #batch = binding.batchNew()

  constructor (level, host) {
    super(level)
    this.#host = host
    host.freeWith(this, binding.batchFree, this.#batch)
  }

  _put (key, value) {
    binding.batchPut(this.#batch, key, value)
  }

  _del (key) {
    binding.batchDel(this.#batch, key)
  }

  _clear () {
    binding.batchClear(this.#batch)
  }

  _write (options) {
    return this.#host.writeBatch(this.#batch, options)
  }

  async _close () {
    binding.batchFree(this.#batch)
  }
}

module.exports = { TerraceChainedBatch }
