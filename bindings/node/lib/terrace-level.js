'use strict'

const { mkdir } = require('fs/promises')
const { AbstractLevel } = require('abstract-level')
const ModuleError = require('module-error')
const binding = require('./binding')
const { failure } = require('./failure')
const { Host } = require('./host')
const { TerraceChainedBatch } = require('./chained-batch')
const { TerraceIterator, bounds } = require('./iterator')
const { PlainEncodings } = require('./plain-encodings')
const { TerraceSnapshot } = require('./snapshot')
const { WeakResources } = require('./weak-resources')

const MANIFEST = {
  encodings: { buffer: true, utf8: true, view: true },
  has: true,
  getSync: true,
  createIfMissing: true,
  errorIfExists: true,
  explicitSnapshots: true,
  additionalMethods: {
    approximateSize: true,
    compactRange: true,
    checkpoint: true,
    catchUp: true
  },
  signals: { iterators: true }
}

// Options of the native part by type. A value of another type is an error.
const OPTION_TYPES = {
  createIfMissing: ['boolean'],
  errorIfExists: ['boolean'],
  compression: ['boolean', 'string'],
  cacheSize: ['number'],
  writeBufferSize: ['number'],
  blockSize: ['number'],
  maxOpenFiles: ['number'],
  blockRestartInterval: ['number'],
  maxFileSize: ['number'],
  memoryBudget: ['number'],
  multithreading: ['boolean'],
  readOnly: ['boolean'],
  follow: ['boolean'],
  followEvery: ['number']
}

const forgottenDatabases = new FinalizationRegistry(async db => {
  try {
    await binding.close(db)
  } catch {
    // The program has closed it before, or no caller can receive the error.
  }
})

class TerraceLevel extends AbstractLevel {
  #location
  #host = null
  #resources = new WeakResources()
  #plainEncodings

  constructor (location, options) {
    checkedLocation(location)
    super(MANIFEST, options)
    this.#location = location
    this.#plainEncodings = new PlainEncodings(this)
  }

  get location () {
    return this.#location
  }

  async _open (options) {
    const native = nativeOptions(options)
    if (native.createIfMissing && !native.readOnly && !native.follow) {
      await mkdir(this.#location, { recursive: true })
    }
    const db = await binding.open(this.#location, native).catch(rethrow)
    forgottenDatabases.register(this, db)
    super.attachResource(this.#resources)
    this.#host = new Host(db, this.#resources, options.mainThread !== false)
  }

  async _close () {
    await this.#host.close()
  }

  attachResource (resource) {
    if (isOwn(resource)) this.#resources.add(resource)
    else super.attachResource(resource)
  }

  detachResource (resource) {
    if (isOwn(resource)) this.#resources.delete(resource)
    else super.detachResource(resource)
  }

  _put (key, value, options) {
    return this.#host.put(key, value, options)
  }

  _del (key, options) {
    return this.#host.del(key, options)
  }

  _batch (operations, options) {
    return this.#host.batch(operations, options)
  }

  _chainedBatch () {
    return new TerraceChainedBatch(this, this.#host, this.#plainEncodings)
  }

  _get (key, options) {
    return this.#host.get(key, options, TerraceSnapshot.handleOf(options))
  }

  _getSync (key, options) {
    return this.#host.getSync(key, options, TerraceSnapshot.handleOf(options))
  }

  _getMany (keys, options) {
    return this.#host.getMany(keys, options, TerraceSnapshot.handleOf(options))
  }

  _has (key, options) {
    return this.#host.has(key, options, TerraceSnapshot.handleOf(options))
  }

  _hasMany (keys, options) {
    return this.#host.hasMany(keys, options, TerraceSnapshot.handleOf(options))
  }

  _clear (options) {
    const { lower, upper } = bounds(options)
    return this.#host.clear(lower, upper, options, TerraceSnapshot.handleOf(options))
  }

  _iterator (options) {
    return new TerraceIterator(this, this.#host, options, TerraceSnapshot.handleOf(options), this.#plainEncodings)
  }

  _snapshot (options) {
    return new TerraceSnapshot(this.#host, options)
  }

  async approximateSize (start, end, options) {
    checkRange(arguments)
    return this.#whenOpen('approximateSize', options, encode =>
      binding.approximateSize(this.#host.db, encode(start), encode(end)))
  }

  async compactRange (start, end, options) {
    checkRange(arguments)
    return this.#whenOpen('compactRange', options, encode =>
      binding.compactRange(this.#host.db, encode(start), encode(end)))
  }

  /** Writes a consistent copy of the database to the new directory `location`. */
  async checkpoint (location) {
    checkedLocation(location)
    return this.#whenOpen('checkpoint', null, () => binding.checkpoint(this.#host.db, location))
  }

  /** Reads everything that the writer of a followed database has stored. */
  async catchUp () {
    return this.#whenOpen('catchUp', null, () => binding.catchUp(this.#host.db))
  }

  getProperty (property) {
    if (typeof property !== 'string') {
      throw new TypeError("The first argument 'property' must be a string")
    }
    this.#assertOpen('getProperty')
    return binding.property(this.#host.db, property) ?? ''
  }

  /** Returns the counters of the database since its open, and its present size. */
  stats () {
    this.#assertOpen('stats')
    return binding.stats(this.#host.db)
  }

  static async destroy (location) {
    await binding.destroy(checkedLocation(location)).catch(rethrow)
  }

  static async repair (location) {
    await binding.repair(checkedLocation(location)).catch(rethrow)
  }

  #assertOpen (method) {
    if (this.status !== 'open') {
      throw new ModuleError(`Database is not open: cannot call ${method}()`, {
        code: 'LEVEL_DATABASE_NOT_OPEN'
      })
    }
  }

  /** Starts a task of the native part, if need be after the open. */
  async #whenOpen (method, options, start) {
    if (this.status === 'opening') {
      return this.deferAsync(() => this.#whenOpen(method, options, start))
    }
    this.#assertOpen(method)
    const encoding = this.keyEncoding(options?.keyEncoding)
    return this.#host.task(start(key => encoding.encode(key)))
  }
}

/** Returns true if `resource` closes with the database, but may be forgotten before. */
function isOwn (resource) {
  return resource instanceof TerraceIterator || resource instanceof TerraceSnapshot ||
    resource instanceof TerraceChainedBatch
}

function checkedLocation (location) {
  if (typeof location !== 'string' || location === '') {
    throw new TypeError("The first argument 'location' must be a non-empty string")
  }
  return location
}

function checkRange ({ length }) {
  if (length < 2) throw new TypeError("The arguments 'start' and 'end' are required")
}

/** Returns the options that the native part knows. */
function nativeOptions (options) {
  const native = {}
  for (const [name, types] of Object.entries(OPTION_TYPES)) {
    const value = options[name]
    if (value == null) continue
    if (!types.includes(typeof value)) {
      throw new TypeError(`The option '${name}' must be a ${types.join(' or ')}`)
    }
    native[name] = value
  }
  return native
}

function rethrow (error) {
  throw failure(error)
}

module.exports = { TerraceLevel }
