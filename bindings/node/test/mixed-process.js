'use strict'

// Writer or follower of a database that programs of several languages share: see bindings/mixed/README.md.

const assert = require('assert')
const fs = require('fs')

const [verb, library, directory, seconds] = process.argv.slice(2)
const ledger = directory + '.ledger'
const SLOTS = 16
const LIVE = 8
const RECORD = 9

const key = number => 'k' + String(number % SLOTS).padStart(2, '0')
const value = number => `${number} `.repeat(number * 37 % 200 + 1)

/** Returns the entries of a state, in key order. */
function entriesOf (state) {
  const entries = []
  for (let number = Math.max(1, state - LIVE + 1); number <= state; number++) entries.push([key(number), value(number)])
  entries.sort((a, b) => a[0] < b[0] ? -1 : 1)
  return state > 0 ? [...entries, ['state', String(state)]] : entries
}

/** Reads all entries, and returns the number of their state. */
async function readState (db) {
  const entries = await db.iterator().all()
  const state = Number((entries.at(-1) ?? [0, 0])[1])
  assert.deepStrictEqual(entries, entriesOf(state))
  return state
}

/** Returns the last number of the ledger, or 0. */
function lastOfLedger () {
  if (!fs.existsSync(ledger)) return 0
  const file = fs.openSync(ledger)
  const end = Math.floor(fs.fstatSync(file).size / RECORD) * RECORD
  const record = Buffer.alloc(RECORD)
  if (end > 0) fs.readSync(file, record, 0, RECORD, end - RECORD)
  fs.closeSync(file)
  return end > 0 ? Number(record.toString()) : 0
}

async function write () {
  const { ClassicLevel } = require(library)
  const db = new ClassicLevel(directory, { writeBufferSize: 65536 })
  await db.open()
  let state = await readState(db)
  assert(state >= lastOfLedger(), `state ${state} is older than the ledger`)
  const file = fs.openSync(ledger, 'a')
  const end = Date.now() + 1000 * Number(seconds)
  while (Date.now() < end) {
    state++
    await db.batch([
      { type: 'put', key: 'state', value: String(state) },
      { type: 'put', key: key(state), value: value(state) },
      { type: 'del', key: key(state + LIVE) }
    ])
    fs.writeSync(file, String(state).padStart(8, '0') + '\n')
  }
  await db.close()
}

async function follow () {
  const { TerraceLevel } = require('..')
  const db = new TerraceLevel(directory, { follow: true, followEvery: 10 })
  await db.open()
  let state = 0
  let reads = 0
  for (let isLast = false; !isLast; reads++) {
    isLast = fs.existsSync(directory + '.stop')
    let atLeast = state
    if (reads % 2 === 0 || isLast) {
      atLeast = Math.max(state, lastOfLedger())
      await db.catchUp()
    }
    state = await readState(db)
    assert(state >= atLeast, `state ${state} is older than ${atLeast}`)
  }
  console.log(reads, state)
  await db.close()
}

verb === 'write' ? write() : follow()
