'use strict'

// Chained batches and loops over entries whose strings go around the base class. Each program runs
// here and on classic-level, and has to see the same.

const test = require('tape')
const { ClassicLevel } = require('classic-level')
const { TerraceLevel } = require('../..')
const { temporaryDirectory } = require('../directories')

const codeOf = async call => {
  try {
    return await call()
  } catch (error) {
    return error.code ?? error.name
  }
}

const COUNT = 700
const fill = async db => {
  const batch = db.batch()
  for (let i = 0; i < COUNT; i++) batch.put('key' + String(i).padStart(4, '0'), String(i))
  await batch.write()
}

// Encoding that changes all strings, under the name of one that changes none.
const loudly = () => ({ name: 'utf8', format: 'utf8', encode: text => text + '!', decode: text => text + '?' })

// Name: a program that appends to `seen` what it sees.
const PROGRAMS = {
  'order of puts and deletes, with options and without': async (db, seen) => {
    const batch = db.batch().put('a', '1').put('b', '2').del('a').put('c', { x: 3 }, { valueEncoding: 'json' })
    batch.put('d', '4').del('c').put('a', '5').put(Buffer.from('e'), '6', { keyEncoding: 'buffer' }).put('é', 'ü').put(7, 8)
    seen.push(batch.length)
    await batch.write()
    seen.push(await db.iterator().all())
  },
  'cleared and empty batches': async (db, seen) => {
    const batch = db.batch().put('a', '1').put('b', '2').clear()
    seen.push(batch.length)
    batch.put('c', '3').put('d', '4').del('d')
    seen.push(batch.length)
    await batch.write()
    await db.batch().put('e', '5').put('f', '6').clear().write()
    await db.batch().write()
    seen.push(await db.keys().all())
  },
  'use after write and close': async (db, seen) => {
    const written = db.batch().put('a', '1').put('b', '2')
    const promise = written.write()
    seen.push(await codeOf(() => written.put('c', '3')), await codeOf(() => written.del('a')))
    await promise
    seen.push(await codeOf(() => written.write()), written.length)
    const closed = db.batch().put('d', '4').put('e', '5')
    await closed.close()
    seen.push(await codeOf(() => closed.put('f', '6')), await codeOf(() => closed.write()))
    const left = db.batch().put('g', '7').put('h', '8')
    await db.close()
    seen.push(await codeOf(() => left.put('i', '9')))
    await db.open()
    seen.push(await db.keys().all())
  },
  'wrong arguments': async (db, seen) => {
    const batch = db.batch().put('a', '1')
    for (const args of [[null, '1'], [undefined, '1'], ['b', null], ['b', undefined], []]) {
      seen.push(await codeOf(() => batch.put(...args).length), await codeOf(() => batch.del(args[0]).length))
    }
    seen.push(batch.length)
    await batch.write()
    seen.push(await db.iterator().all())
  },
  'hooks, events and sublevels see all operations': async (db, seen) => {
    const sub = db.sublevel('sub')
    db.hooks.prewrite.add((op, batch) => batch.add({ type: 'put', key: 'log:' + op.key, value: op.type }))
    await db.batch().put('a', '1').put('b', '2').del('a').write()
    db.on('write', operations => seen.push(operations.map(({ type, key, value }) => [type, key, value])))
    await db.batch().put('c', '3').put('d', '4').put('e', '5', { sublevel: sub }).write()
    await sub.batch().put('f', '6').put('g', '7').write()
    seen.push(await db.iterator().all(), await sub.iterator().all())
  },
  'an encoding of the program with the name of another one': async (db, seen) => {
    const loud = loudly()
    await db.put('a', '1', { valueEncoding: loud })
    await db.batch().put('b', '2').put('c', '3').write()
    for await (const entry of db.iterator()) seen.push(entry)
  },
  'all entries of a loop, and their number': async (db, seen) => {
    await fill(db)
    for (const options of [{}, { limit: 5 }, { reverse: true }, { keys: false }, { values: false }, { gte: 'key0690' },
      { valueEncoding: 'json' }, { keyEncoding: 'buffer' }, { valueEncoding: 'view', limit: 300 }]) {
      const iterator = db.iterator(options)
      const counts = []
      const entries = []
      for await (const [key, value] of iterator) {
        entries.push([String(key), typeof value === 'number' ? value : String(value)])
        if (entries.length % 100 === 1) counts.push(iterator.count)
      }
      seen.push(entries, counts, iterator.count, await codeOf(() => iterator.next()))
    }
    const keys = []
    for await (const key of db.keys()) keys.push(key)
    seen.push(keys)
  },
  'a loop that ends early closes its iterator': async (db, seen) => {
    await fill(db)
    const iterator = db.iterator()
    for await (const [key] of iterator) if (key === 'key0300') break
    seen.push(await codeOf(() => iterator.next()))
    const other = db.iterator()
    seen.push(await codeOf(async () => { for await (const [key] of other) if (key === 'key0300') throw new RangeError('x') }))
    seen.push(await codeOf(() => other.next()))
    const closed = db.iterator()
    seen.push(await codeOf(async () => { for await (const [key] of closed) if (key === 'key0300') await closed.close() }))
  },
  'a loop beside other calls': async (db, seen) => {
    await fill(db)
    const iterator = db.iterator()
    const keys = []
    for await (const [key] of iterator) {
      keys.push(key)
      if (keys.length === 100) keys.push((await iterator.next())[0], ...(await iterator.nextv(3)).map(([one]) => one))
      if (keys.length === 200) iterator.seek('key0600')
    }
    seen.push(keys)
  },
  'the generator by hand': async (db, seen) => {
    await fill(db)
    const loop = db.iterator()[Symbol.asyncIterator]()
    const many = await Promise.all(Array.from({ length: 40 }, () => loop.next()))
    seen.push(many, await loop.next(), await loop.return('end'), await loop.next())
    const thrown = db.iterator()[Symbol.asyncIterator]()
    seen.push(await thrown.next(), await codeOf(() => thrown.throw(new RangeError('x'))), await thrown.next())
    const whole = db.iterator({ gte: 'key0698' })[Symbol.asyncIterator]()
    for (let i = 0; i < 4; i++) seen.push(await whole.next())
    const unused = db.iterator()[Symbol.asyncIterator]()
    seen.push(await unused.return('end'), await unused.next())
    const ended = db.iterator()
    const never = ended[Symbol.asyncIterator]()
    await never.return()
    seen.push(await ended.next(), await ended.next(), await never.next())
    const queued = db.iterator()[Symbol.asyncIterator]()
    const calls = [1, 2, 3, 4, 5].map(() => queued.next())
    await calls[1]
    seen.push(await queued.next(), await Promise.all(calls))
  },
  'an aborted loop': async (db, seen) => {
    await fill(db)
    const stop = new AbortController()
    const keys = []
    seen.push(await codeOf(async () => {
      for await (const [key] of db.iterator({ signal: stop.signal })) if (keys.push(key) === 300) stop.abort()
    }), keys.length)
  }
}

async function run (Level, program, options) {
  const db = new Level(temporaryDirectory(), options)
  await db.open()
  const seen = []
  await program(db, seen)
  await db.close()
  return seen
}

for (const [name, program] of Object.entries(PROGRAMS)) {
  test(name, async t => {
    const expected = await run(ClassicLevel, program)
    t.ok(expected.flat().length > 1, 'the program has seen something')
    t.same(await run(TerraceLevel, program), expected)
    t.same(await run(TerraceLevel, program, { mainThread: false }), expected, 'answers by a worker')
  })
}

test('databases with other encodings', async t => {
  for (const options of [{ keyEncoding: 'hex', valueEncoding: 'json' }, { valueEncoding: 'buffer' }, { valueEncoding: loudly() }]) {
    const program = async (db, seen) => {
      await db.batch().put('aa', 'b1').put('bb', 'c2').del('aa').write()
      for await (const [key, value] of db.iterator()) seen.push([key, String(value)])
    }
    t.same(await run(TerraceLevel, program, options), await run(ClassicLevel, program, options))
  }
})
