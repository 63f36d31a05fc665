'use strict'

const binding = require('./binding')
const { failure } = require('./failure')
const { nextTurn } = require('./main-thread')

// A group that has reached this size takes no more writes, so that it fits in a memtable.
const MAX_GROUP_BYTES = 1 << 20

/**
 * Writes that wait for their turn, in the order of their calls.
 *
 * ```text
 *   put, del, batch ──> last group ──┐
 *   clear ───────────> own step ─────┴──> one step at a time, on a worker thread
 * ```
 *
 * A group is one batch: puts that arrive while a worker executes a step become one write.
 */
class WriteQueue {
  #db
  #steps = []
  #isRunning = false
  #drained = null

  constructor (db) {
    this.#db = db
  }

  /** Returns true if no write waits or runs, so that the main thread may write. */
  get isIdle () {
    return !this.#isRunning
  }

  /**
   * Adds a write and returns the promise of its result. `append` adds operations to the batch with
   * the handle that it receives, all or none of them, and returns the size of the batch in bytes.
   * A write that `waitsForTurn` begins in the next turn of the event loop, on the main thread if
   * possible.
   */
  add (append, sync, waitsForTurn) {
    const group = this.#openGroup()
    group.bytes = append(group.batch)
    group.sync ||= sync
    this.#start(waitsForTurn && !sync)
    return group.promise
  }

  /** Adds a step that is no batch and returns the promise of its result. */
  addStep (run) {
    const step = withPromise({ run })
    this.#steps.push(step)
    this.#start(false)
    return step.promise
  }

  /** Resolves when all writes have ended. */
  async drain () {
    if (this.#isRunning) await (this.#drained ??= withPromise({})).promise
  }

  #openGroup () {
    const last = this.#steps.at(-1)
    if (last?.batch !== undefined && last.bytes < MAX_GROUP_BYTES) return last
    const group = withPromise({ batch: binding.batchNew(), bytes: 0, sync: false })
    this.#steps.push(group)
    return group
  }

  #start (waitsForTurn) {
    if (this.#isRunning) return
    this.#isRunning = true
    this.#run(waitsForTurn)
  }

  async #run (waitsForTurn) {
    if (waitsForTurn) await nextTurn()
    while (this.#steps.length > 0) {
      const step = this.#steps.shift()
      try {
        await (step.run === undefined ? this.#write(step, waitsForTurn) : step.run())
        step.resolve()
      } catch (error) {
        step.reject(failure(error))
      }
      waitsForTurn = false
    }
    this.#isRunning = false
    this.#drained?.resolve()
    this.#drained = null
  }

  async #write ({ batch, sync }, mayTry) {
    try {
      if (mayTry && !sync && binding.tryWrite(this.#db, batch)) return
      await binding.write(this.#db, batch, sync)
    } finally {
      binding.batchFree(batch)
    }
  }
}

function withPromise (step) {
  step.promise = new Promise((resolve, reject) => {
    step.resolve = resolve
    step.reject = reject
  })
  return step
}

module.exports = { WriteQueue }
