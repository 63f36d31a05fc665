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
  #isOpen = true // before write() and close()
  #isObserved // by a hook, a listener or an encoding
  #hasFirst = false
  #direct = 0 // operations that the base class does not know

  constructor (level, host, plainEncodings) {
    super(level)
    this.#host = host
    this.#isObserved = !level.hooks.prewrite.noop || level.listenerCount('write') > 0 ||
      !plainEncodings.encodesStrings(level)
  }

  get length () {
    return super.length + this.#direct
  }

  /**
   * The base class makes an object of each operation, for hooks, listeners, encodings and sublevels.
   * Strings without options need none, so they go around it. It gets the first operation, so that its
   * write() does not take the batch for an empty one.
   */
  put (key, value, options) {
    if (typeof key === 'string' && typeof value === 'string' && options === undefined && this.#mayAddDirectly()) {
      this.#pending.put(key, value)
      this.#direct++
      return this
    }
    super.put(key, value, options)
    this.#hasFirst = true
    return this
  }

  del (key, options) {
    if (typeof key === 'string' && options === undefined && this.#mayAddDirectly()) {
      this.#pending.del(key)
      this.#direct++
      return this
    }
    super.del(key, options)
    this.#hasFirst = true
    return this
  }

  write (options) {
    this.#isOpen = false
    return super.write(options)
  }

  close () {
    this.#isOpen = false
    return super.close()
  }

  #mayAddDirectly () {
    return this.#hasFirst && this.#isOpen && !this.#isObserved && this.db.status === 'open'
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
    this.#hasFirst = false
    this.#direct = 0
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
