'use strict'

// Speed beside classic-level: medians of five rounds in ns per operation, as a table in Markdown.
//   node bench.js [KEYS [ROUNDS]]

const { fork } = require('child_process')
const { once } = require('events')
const { mkdtempSync, rmSync } = require('fs')
const { tmpdir } = require('os')
const { join } = require('path')

const KEYS = Number(process.argv[2] ?? 50000)
const ROUNDS = Number(process.argv[3] ?? 5)
const BATCH = 100
const VALUE = 'x'.repeat(100)

// Keys of 16 characters in random order.
const keys = Array.from({ length: KEYS }, (_, i) => String(Math.imul(i, 2654435761) >>> 0).padStart(16, '0'))

async function inBatches (call) {
  for (let i = 0; i < KEYS; i += BATCH) await call(keys.slice(i, i + BATCH))
}

const ROWS = {
  'put, awaited one by one': async db => { for (const key of keys) await db.put(key, VALUE) },
  'put, 100 in flight': db => inBatches(some => Promise.all(some.map(key => db.put(key, VALUE)))),
  'get, awaited one by one': async db => { for (const key of keys) await db.get(key) },
  'get, 100 in flight': db => inBatches(some => Promise.all(some.map(key => db.get(key)))),
  getSync: async db => { for (const key of keys) db.getSync(key) },
  'getMany of 100': db => inBatches(some => db.getMany(some)),
  'array batch of 100': db => inBatches(some =>
    db.batch(some.map(key => ({ type: 'put', key, value: VALUE })))),
  'chained batch of 100': db => inBatches(some =>
    some.reduce((batch, key) => batch.put(key, VALUE), db.batch()).write()),
  'for await': async db => { for await (const entry of db.iterator()) if (entry.length !== 2) throw entry },
  'for await, Buffers': async db => {
    const buffers = { keyEncoding: 'buffer', valueEncoding: 'buffer' }
    for await (const entry of db.iterator(buffers)) if (entry.length !== 2) throw entry
  },
  'nextv(1000)': async db => {
    const iterator = db.iterator()
    while ((await iterator.nextv(1000)).length > 0);
    await iterator.close()
  }
}

/** Measures all rows in this process, and sends processor time and wall time in ns per key. */
async function measure (name) {
  const Level = name === 'terrace' ? require('.').TerraceLevel : require('classic-level').ClassicLevel
  const directory = mkdtempSync(join(tmpdir(), 'terrace-bench-'))
  const db = new Level(directory)
  await db.open()
  const result = {}
  for (const [row, run] of Object.entries(ROWS)) {
    const start = process.hrtime.bigint()
    const before = process.cpuUsage()
    await run(db)
    const { user, system } = process.cpuUsage(before)
    result[row] = { wall: Number(process.hrtime.bigint() - start) / KEYS, cpu: (user + system) * 1000 / KEYS }
  }
  result.gap = await longestGap(db)
  await db.close()
  rmSync(directory, { recursive: true })
  process.send(result)
}

/** The longest time in ms between two calls of a timer of 1 ms, beside a loop of awaited puts. */
async function longestGap (db) {
  let [last, longest] = [performance.now(), 0]
  const note = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(note, 1)
  for (const key of keys) await db.put(key, VALUE)
  note()
  clearInterval(timer)
  return longest
}

function median (numbers) {
  return numbers.sort((a, b) => a - b)[numbers.length >> 1]
}

async function main () {
  const rounds = { terrace: [], classic: [] }
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of Object.keys(rounds)) {
      const child = fork(__filename, [KEYS, ROUNDS, name])
      const [result] = await once(child, 'message')
      await once(child, 'exit')
      rounds[name].push(result)
    }
  }
  console.log('| ns per operation | classic-level | terrace-level | ratio | classic-level, processor time | terrace-level, processor time |\n|---|---:|---:|---:|---:|---:|')
  for (const row of Object.keys(ROWS)) {
    const of = (name, kind) => median(rounds[name].map(result => result[row][kind]))
    const [classic, terrace] = [of('classic', 'wall'), of('terrace', 'wall')]
    const cells = [classic, terrace].map(Math.round).concat((classic / terrace).toFixed(1),
      Math.round(of('classic', 'cpu')), Math.round(of('terrace', 'cpu')))
    console.log(`| ${row} | ${cells.join(' | ')} |`)
  }
  const gaps = Object.entries(rounds).map(([name, results]) => `${name} ${median(results.map(({ gap }) => gap)).toFixed(1)}`)
  console.log(`\nlongest gap of a timer of 1 ms beside awaited puts, in ms: ${gaps.join(', ')}`)
}

if (process.argv[4]) measure(process.argv[4])
else main()
