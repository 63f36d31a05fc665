'use strict'

// Runs the conformance cases of bindings/conformance/README.md. Each step is a function of its words.

const { execFileSync } = require('child_process')
const fs = require('fs')
const { join } = require('path')
const { TerraceLevel } = require('..')
const { temporaryDirectory } = require('./directories')

const ENCODINGS = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
const SMALL_DISK = process.env.TERRACE_SMALL_DISK
const FEATURES = new Set(['snapshot', 'delete-range', 'get-many', 'read-only', 'repair', 'use-after-close'])
if (SMALL_DISK) FEATURES.add('small-disk')

const KINDS = {
  closed: ['LEVEL_DATABASE_NOT_OPEN', 'LEVEL_ITERATOR_NOT_OPEN', 'LEVEL_SNAPSHOT_NOT_OPEN'],
  locked: ['LEVEL_LOCKED'],
  corruption: ['LEVEL_CORRUPTION'],
  io: ['LEVEL_IO_ERROR'],
  invalid: ['LEVEL_INVALID_ARGUMENT'],
  unsupported: ['LEVEL_NOT_SUPPORTED']
}

const RESULTS = new Set(['expect', 'count', 'missing', 'error'])

/** Returns the bytes of a word. */
function bytes (word) {
  if (word === '""') return Buffer.alloc(0)
  const [, text, times] = /^(.*?)(?:\*(\d+))?$/s.exec(word)
  const once = text.replace(/\\x([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))
  return Buffer.from(once.repeat(Number(times ?? 1)), 'latin1')
}

/** Returns a comparable text of a value or entry. */
function text (item) {
  if (item === undefined) return 'missing'
  return Array.isArray(item) ? item.map(part => part.toString('latin1')).join('=') : item.toString('latin1')
}

function entry (word) {
  const at = word.indexOf('=')
  return [bytes(word.slice(0, at)), bytes(word.slice(at + 1))]
}

class Case {
  db = null
  snapshots = new Map()
  iterators = new Map()

  constructor (directory) {
    this.directory = directory
  }

  async open (mode) {
    const db = new TerraceLevel(this.directory, {
      ...ENCODINGS,
      createIfMissing: mode === undefined || mode === 'new',
      errorIfExists: mode === 'new',
      readOnly: mode === 'read-only'
    })
    await db.open()
    this.db = db
  }

  async close () {
    await this.db.close()
  }

  put (key, value, sync) {
    return this.db.put(bytes(key), bytes(value), { sync: sync === 'sync' })
  }

  delete (key, sync) {
    return this.db.del(bytes(key), { sync: sync === 'sync' })
  }

  batch (...words) {
    return this.db.batch(words.map(word => {
      if (word[0] === '-') return { type: 'del', key: bytes(word.slice(1)) }
      const [key, value] = entry(word.slice(1))
      return { type: 'put', key, value }
    }))
  }

  get (key, _at, snapshot) {
    return this.db.get(bytes(key), { snapshot: this.snapshots.get(snapshot) })
  }

  async 'get-many' (...keys) {
    const values = await this.db.getMany(keys.map(bytes))
    return keys.map((key, i) => values[i] === undefined ? bytes(key) : [bytes(key), values[i]])
  }

  scan (...words) {
    const options = {}
    while (words.length > 0) {
      const word = words.shift()
      if (word === 'from') options.gte = bytes(words.shift())
      else if (word === 'to') options.lt = bytes(words.shift())
      else if (word === 'prefix') Object.assign(options, prefixRange(bytes(words.shift())))
      else if (word === 'reverse') options.reverse = true
      else if (word === 'limit') options.limit = Number(words.shift())
      else if (word === 'at') options.snapshot = this.snapshots.get(words.shift())
    }
    return this.db.iterator(options).all()
  }

  'delete-range' (from, to) {
    return this.db.clear({ gte: bytes(from), lt: bytes(to) })
  }

  async fill (count, size) {
    const value = Buffer.alloc(Number(size), 'v')
    for (let i = 0; i < count; i++) await this.db.put(Buffer.from('k' + String(i).padStart(8, '0')), value)
  }

  async snapshot (name) {
    this.snapshots.set(name, this.db.snapshot())
  }

  async release (name) {
    await (this.snapshots.get(name) ?? this.iterators.get(name)).close()
  }

  async iterator (name, _at, snapshot) {
    this.iterators.set(name, this.db.iterator({ snapshot: this.snapshots.get(snapshot) }))
  }

  first (name) {
    return this.seek(name, '""')
  }

  seek (name, key) {
    this.iterators.get(name).seek(bytes(key))
    return this.next(name)
  }

  next (name) {
    return this.iterators.get(name).next()
  }

  async compact () {
    await this.db.compactRange(Buffer.alloc(0), Buffer.alloc(64, 0xff))
  }

  repair () {
    return TerraceLevel.repair(this.directory)
  }

  destroy () {
    return TerraceLevel.destroy(this.directory)
  }

  async damage (suffix, offset) {
    this.#files(suffix, file => {
      const content = fs.readFileSync(file)
      content[offset < 0 ? content.length + Number(offset) : Number(offset)] ^= 0xff
      fs.writeFileSync(file, content)
    })
  }

  async truncate (suffix, length) {
    this.#files(suffix, file => fs.truncateSync(file, Number(length)))
  }

  async remove (suffix) {
    this.#files(suffix, file => fs.unlinkSync(file))
  }

  async protect () {
    execFileSync('mount', ['-o', 'remount,ro', SMALL_DISK])
  }

  async unprotect () {
    execFileSync('mount', ['-o', 'remount,rw', SMALL_DISK])
  }

  #files (suffix, change) {
    const names = fs.readdirSync(this.directory).filter(name => name.endsWith(suffix))
    names.forEach(name => change(join(this.directory, name)))
  }
}

/** Returns the range of the keys with `prefix`. Its end is the next key of the same length, if any. */
function prefixRange (prefix) {
  const end = Buffer.from(prefix)
  let length = end.length
  while (length > 0 && end[length - 1] === 0xff) length--
  if (length === 0) return { gte: prefix }
  end[length - 1]++
  return { gte: prefix, lt: end.subarray(0, length) }
}

/** Returns a message if `outcome` is not the stated result. */
function difference (outcome, [kind, ...words]) {
  if (kind === 'error') return errorDifference(outcome, words)
  if (outcome.error !== undefined) return `found the error ${outcome.error.code}: ${outcome.error.message}`
  if (kind === undefined) return null
  const { value } = outcome
  const isList = Array.isArray(value) && !Buffer.isBuffer(value[0])
  const found = { missing: text(value), count: String(value?.length), expect: undefined }[kind] ??
    (isList ? value.map(text).join(' ') : text(value))
  const decode = word => word.includes('=') && word !== '=' ? text(entry(word)) : text(bytes(word))
  const expected = { missing: 'missing', count: words[0] }[kind] ?? words.map(decode).join(' ')
  return found === expected ? null : `found ${found.slice(0, 200)}, expected ${expected.slice(0, 200)}`
}

function errorDifference ({ error }, [kind, ...words]) {
  if (error === undefined) return `found no error, expected ${kind}`
  const cause = error.cause ?? error
  const isExpected = KINDS[kind].includes(cause.code) && words.every(word => cause.message.includes(word))
  return isExpected ? null : `found ${cause.code}: ${cause.message}, expected ${kind} ${words.join(' ')}`
}

/** Returns the cases of a file: name, line, and steps with the words of their results. */
function parse (file) {
  const cases = []
  fs.readFileSync(file, 'utf8').split('\n').forEach((line, i) => {
    const words = line.split(' ').filter(word => word !== '')
    if (words.length === 0 || words[0].startsWith('#')) return
    if (words[0] === 'case') cases.push({ name: words[1], requires: [], steps: [] })
    else if (words[0] === 'requires') cases.at(-1).requires = words.slice(1)
    else if (RESULTS.has(words[0])) cases.at(-1).steps.at(-1).result = words
    else cases.at(-1).steps.push({ words, result: [], line: i + 1 })
  })
  return cases
}

/** Runs a case and returns the message of its failure, or null. */
async function run ({ steps }, directory) {
  const current = new Case(directory)
  try {
    for (const { words: [verb, ...words], result, line } of steps) {
      const outcome = await Promise.resolve().then(() => current[verb](...words))
        .then(value => ({ value }), error => ({ error }))
      const message = difference(outcome, result)
      if (message !== null) return `line ${line}: ${verb}: ${message}`
    }
    return null
  } finally {
    await current.db?.close()
  }
}

async function main (directory) {
  let count = 0
  let skipped = 0
  for (const name of fs.readdirSync(directory).filter(name => name.endsWith('.txt')).sort()) {
    for (const one of parse(join(directory, name))) {
      count++
      const missing = one.requires.filter(feature => !FEATURES.has(feature))
      if (missing.length > 0) {
        skipped++
        if (missing.includes('small-disk')) console.log(`NOT TESTED: ${one.name}: no small disk`)
        continue
      }
      const isSmall = one.requires.includes('small-disk')
      const home = isSmall ? join(SMALL_DISK, 'db') : temporaryDirectory()
      const message = await run(one, home)
      if (isSmall) fs.rmSync(home, { recursive: true, force: true })
      if (message !== null) {
        process.exitCode = 1
        console.log(`${name}: ${one.name}: ${message}`)
      }
    }
  }
  console.log(`${count} cases, ${skipped} skipped`)
}

main(process.env.TERRACE_CONFORMANCE)
