'use strict'

const binding = require('./binding')
const { failure } = require('./failure')
const { count, mayAnswer, nextTurn } = require('./main-thread')
const { PendingOperations } = require('./pending-operations')
const { WriteQueue } = require('./write-queue')

// Flags of the native part, in src/hot.rs.
const NO_FILL_CACHE = 1
const VALUE_AS_BUFFER = 2
const ONLY_EXISTENCE = 4

/** Returns the length of an encoded key or value. The native part refuses one that is none. */
const lengthOf = bytes => bytes?.length ?? 0

/**
 * An open native database, and the choice of the thread that answers a call.
 *
 * ```text
 *   try on the main thread ── would wait ──────────> worker thread
 *          |                                              ^
 *          └─ time of this turn is used ─> next turn      └─ sync: true, or a write waits there
 * ```
 */
class Host {
  #usesMainThread
  #writes
  #taskCount = 0
  #whenIdle = null
  #isClosed = false
  #resources

  constructor (db, resources, usesMainThread) {
    this.db = db
    this.#resources = resources
    this.#usesMainThread = usesMainThread
    this.#writes = new WriteQueue(db)
  }

  freeWith (resource, free, handle) {
    this.#resources.freeWith(resource, free, handle)
  }

  /**
   * Closes the database after the end of all calls. The database is closed even if this fails. The base
   * class then regards it as open, until a second call succeeds.
   */
  async close () {
    await this.#writes.drain()
    while (this.#taskCount > 0) await new Promise(resolve => { this.#whenIdle = resolve })
    if (this.#isClosed) return
    this.#isClosed = true
    await this.task(binding.close(this.db))
  }

  /** Returns the result of a promise of the native part, and waits for it at close. */
  async task (promise) {
    this.#taskCount++
    try {
      return await promise
    } catch (error) {
      throw failure(error)
    } finally {
      if (--this.#taskCount === 0) this.#whenIdle?.()
    }
  }

  put (key, value, options) {
    const mayTry = this.#mayWrite(lengthOf(key) + lengthOf(value), options)
    if (mayTry && binding.tryPut(this.db, key, value)) return
    return this.#queue(batch => binding.batchPut(batch, key, value), options, mayTry)
  }

  del (key, options) {
    const mayTry = this.#mayWrite(lengthOf(key), options)
    if (mayTry && binding.tryDel(this.db, key)) return
    return this.#queue(batch => binding.batchDel(batch, key), options, mayTry)
  }

  batch (operations, options) {
    const batch = binding.batchNew()
    const pending = new PendingOperations(() => batch)
    try {
      for (const { type, key, value } of operations) {
        if (type === 'put') pending.put(key, value)
        else pending.del(key)
      }
      pending.flush()
      return this.writeBatch(batch, options)
    } finally {
      binding.batchFree(batch)
    }
  }

  /** Writes the operations of `batch`, and leaves it without any if a worker writes them. */
  writeBatch (batch, options) {
    const mayTry = this.#mayWrite(binding.batchSize(batch), options)
    if (mayTry && binding.tryWrite(this.db, batch)) return
    return this.#queue(group => binding.batchAppend(group, batch), options, mayTry)
  }

  clear (lower, upper, { limit, reverse }, snapshot) {
    const count = limit >= 0 && limit !== Infinity ? limit : undefined
    return this.#writes.addStep(() =>
      binding.clear(this.db, lower, upper, count, reverse === true, snapshot))
  }

  #mayWrite (bytes, { sync }) {
    return this.#usesMainThread && sync !== true && this.#writes.isIdle && mayAnswer(bytes)
  }

  /** Queues a write that the main thread has tried in vain, or may not try in this turn. */
  #queue (append, { sync }, wasTried) {
    return this.#writes.add(append, sync === true, this.#usesMainThread && !wasTried)
  }

  get (key, options, snapshot) {
    return this.#read(key, readFlags(options), snapshot)
  }

  getSync (key, options, snapshot) {
    return snapshot === 0
      ? binding.getSync(this.db, key, readFlags(options))
      : binding.getSync(this.db, key, readFlags(options), snapshot)
  }

  has (key, options, snapshot) {
    return this.#read(key, readFlags(options) | ONLY_EXISTENCE, snapshot)
  }

  #read (key, flags, snapshot) {
    if (!this.#usesMainThread) return this.#readOnWorker([key], flags, snapshot).then(first)
    if (!mayAnswer(lengthOf(key))) return this.#readInNextTurn(key, flags, snapshot)
    const value = this.#tryGet(key, flags, snapshot)
    if (value === null) return this.#readOnWorker([key], flags, snapshot).then(first)
    if (value !== undefined) count(value.length ?? 0)
    return value
  }

  /** Each argument that crosses takes time, and most reads have no snapshot. */
  #tryGet (key, flags, snapshot) {
    return snapshot === 0
      ? binding.tryGet(this.db, key, flags)
      : binding.tryGet(this.db, key, flags, snapshot)
  }

  #readInNextTurn (key, flags, snapshot) {
    return this.task(nextTurn().then(() => this.#read(key, flags, snapshot)))
  }

  async #readOnWorker (keys, flags, snapshot) {
    const onlyExistence = (flags & ONLY_EXISTENCE) !== 0
    const fillCache = (flags & NO_FILL_CACHE) === 0
    const values = await this.task(binding.getMany(this.db, keys, onlyExistence, fillCache, snapshot))
    if (onlyExistence) return values.map(value => value != null)
    const isBuffer = (flags & VALUE_AS_BUFFER) !== 0
    return values.map(value => value == null ? undefined : isBuffer ? value : value.toString())
  }

  getMany (keys, options, snapshot) {
    return this.#readMany(keys, readFlags(options), snapshot)
  }

  hasMany (keys, options, snapshot) {
    return this.#readMany(keys, readFlags(options) | ONLY_EXISTENCE, snapshot)
  }

  /** Reads all keys at the state of one moment, if need be in several turns. */
  async #readMany (keys, flags, snapshot) {
    const own = snapshot === 0 && keys.length > 1 ? binding.snapshotNew(this.db) : 0
    try {
      return await this.task(this.#readManyAt(keys, flags, snapshot || own))
    } finally {
      if (own !== 0) binding.snapshotFree(own)
    }
  }

  async #readManyAt (keys, flags, snapshot) {
    if (!this.#usesMainThread) return this.#readOnWorker(keys, flags, snapshot)
    const values = new Array(keys.length)
    const waiting = [] // Indexes of the keys that one call of a worker reads.
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]
      while (!mayAnswer(lengthOf(key))) await nextTurn()
      const value = this.#tryGet(key, flags, snapshot)
      values[i] = value
      if (value === null) waiting.push(i)
      else count(value?.length ?? 0)
    }
    if (waiting.length > 0) {
      const rest = await this.#readOnWorker(waiting.map(i => keys[i]), flags, snapshot)
      waiting.forEach((index, i) => { values[index] = rest[i] })
    }
    return values
  }
}

function first (values) {
  return values[0]
}

function readFlags ({ fillCache, valueEncoding }) {
  let flags = 0
  if (fillCache === false) flags |= NO_FILL_CACHE
  if (valueEncoding !== 'utf8') flags |= VALUE_AS_BUFFER
  return flags
}

module.exports = { Host }
