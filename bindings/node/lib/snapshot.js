'use strict'

const { AbstractSnapshot } = require('abstract-level')
const binding = require('./binding')

class TerraceSnapshot extends AbstractSnapshot {
  #handle

  constructor (host, options) {
    super(options)
    this.#handle = binding.snapshotNew(host.db)
    host.freeWith(this, binding.snapshotFree, this.#handle)
  }

  /** Handle of a snapshot after its close. */
  static CLOSED = null

  /** Returns the handle of the snapshot of `options`, or 0 for the current state. */
  static handleOf ({ snapshot }) {
    return snapshot == null ? 0 : snapshot.#handle
  }

  async _close () {
    binding.snapshotFree(this.#handle)
    this.#handle = TerraceSnapshot.CLOSED
  }
}

module.exports = { TerraceSnapshot }
