'use strict'

const test = require('tape')
const { TerraceLevel } = require('../..')
const { temporaryDirectory } = require('../directories')

async function open (t, options) {
  const db = new TerraceLevel(temporaryDirectory(), options)
  await db.open()
  t.teardown(() => db.close())
  return db
}

test('writes take effect in the order of their calls', async t => {
  const db = await open(t)
  for (let round = 0; round < 200; round++) {
    const writes = []
    for (let i = 0; i < 20; i++) writes.push(db.put('key', `${round} ${i}`, { sync: i % 7 === round % 7 }))
    writes.push(db.batch([{ type: 'put', key: 'key', value: 'batch' }]), db.clear({ gte: 'k' }))
    writes.push(db.put('key', String(round)))
    await Promise.all(writes)
    if (await db.get('key') !== String(round)) return t.fail(`round ${round}: another write came last`)
  }
  t.pass('the last write won in 200 rounds')
})

test('a caller may change a buffer after its call', async t => {
  const db = await open(t, { valueEncoding: 'buffer' })
  const value = Buffer.from('first')
  const writes = [db.put('a', value, { sync: true }), db.put('b', value)]
  value.fill('x')
  await Promise.all(writes)
  t.same(await db.getMany(['a', 'b']), [Buffer.from('first'), Buffer.from('first')])
})

test('timers run beside loops of awaited calls', async t => {
  const db = await open(t)
  let fired = 0
  const timer = setInterval(() => fired++, 1)
  for (let i = 0; i < 100000; i++) await db.put('key', String(i))
  const besidePuts = fired
  for (let i = 0; i < 100000; i++) await db.get('key')
  const besideGets = fired - besidePuts
  await db.getMany(new Array(300000).fill('key'))
  const besideGetMany = fired - besidePuts - besideGets
  clearInterval(timer)
  t.ok(besidePuts > 0, 'puts')
  t.ok(besideGets > 0, 'gets')
  t.ok(besideGetMany > 0, 'getMany')
})

test('getMany() of several turns sees one state', async t => {
  const db = await open(t)
  const keys = Array.from({ length: 50000 }, (_, i) => String(i))
  await db.batch(keys.map(key => ({ type: 'put', key, value: 'old' })))
  const values = db.getMany(keys)
  await db.batch(keys.map(key => ({ type: 'put', key, value: 'new' })))
  t.same(new Set(await values), new Set(['old']))
})

test('close() waits for all calls', async t => {
  const db = new TerraceLevel(temporaryDirectory())
  await db.open()
  const calls = []
  for (let i = 0; i < 5000; i++) calls.push(db.put(String(i), 'value', { sync: i % 1000 === 0 }), db.get(String(i)))
  calls.push(db.clear({ gte: '9' }))
  await db.close()
  const results = await Promise.allSettled(calls)
  t.same(results.filter(({ status }) => status === 'rejected'), [])
  await db.open()
  t.is(await db.get('4999'), 'value')
  t.is(await db.get('999'), undefined)
  await db.close()
})

test('a full memtable, whose write waits, keeps the order', async t => {
  const db = await open(t, { writeBufferSize: 65536 })
  const value = 'x'.repeat(1000)
  const writes = []
  for (let i = 0; i < 20000; i++) writes.push(db.put(String(i % 100), value + i))
  await Promise.all(writes)
  const values = await db.getMany(Array.from({ length: 100 }, (_, i) => String(i)))
  t.same(values, Array.from({ length: 100 }, (_, i) => value + (19900 + i)))
})

test('a seek cancels what was read ahead', async t => {
  const db = await open(t)
  const keys = Array.from({ length: 20000 }, (_, i) => String(i).padStart(5, '0'))
  await db.batch(keys.map(key => ({ type: 'put', key, value: key })))
  const iterator = db.iterator()
  for (let i = 0; i < 5000; i++) await iterator.next()
  iterator.seek('00100')
  t.same(await iterator.next(), ['00100', '00100'])
  for (let i = 0; i < 5000; i++) await iterator.next()
  t.same((await iterator.nextv(3)).map(([key]) => key), ['05101', '05102', '05103'])
  await iterator.close()
  const backward = await db.keys({ reverse: true }).all()
  t.same(backward, keys.reverse())
})

test('highWaterMarkBytes bounds what is fetched at once', async t => {
  const db = await open(t)
  await db.batch().put('a', '1').put('b', '2').put('c', '3').put('d', '4').write()
  for (const [highWaterMarkBytes, entries, cached] of [[0, 1, 0], [1, 1, 0], [2, 2, 1], [9, 4, 2], [Infinity, 1, 0]]) {
    const iterator = db.iterator({ highWaterMarkBytes })
    t.is((await iterator.nextv(1000)).length, entries, `nextv, ${highWaterMarkBytes}`)
    await iterator.close()
    const other = db.iterator({ highWaterMarkBytes })
    await other.next()
    await other.next()
    t.is(other.cached, cached, `next, ${highWaterMarkBytes}`)
    t.is((await other.all()).length, 2, 'all')
  }
})

test('clear() of few and many keys', async t => {
  const db = await open(t)
  const key = i => String(i).padStart(6, '0')
  const fill = async () => {
    const operations = Array.from({ length: 50000 }, (_, i) => ({ type: 'put', key: key(i), value: 'v'.repeat(50) }))
    await db.batch(operations)
  }
  await fill()
  await db.compactRange('', 'x')
  for (const [options, left] of [
    [{ gte: key(10), lt: key(20) }, 49990],
    [{ gt: key(1000), lte: key(2000) }, 48990],
    [{ gt: key(3000), lte: key(43000) }, 8990],
    [{ limit: 5 }, 8985],
    [{ limit: 5, reverse: true }, 8980],
    [{ lt: '' }, 8980],
    [{ gte: key(2), lt: key(1) }, 8980],
    [{}, 0]
  ]) {
    await db.clear(options)
    t.is((await db.keys().all()).length, left, JSON.stringify(options))
  }
  await fill()
  const snapshot = db.snapshot()
  await db.put('later', 'value')
  await db.clear({ snapshot })
  t.same(await db.keys().all(), ['later'])
  await snapshot.close()
})

test('getMany() of keys in memory, in unread blocks, and of missing keys', async t => {
  const db = new TerraceLevel(temporaryDirectory(), { compression: true })
  const keys = Array.from({ length: 5000 }, (_, i) => String(i))
  await db.batch(keys.map(key => ({ type: 'put', key, value: key + 'v'.repeat(100) })))
  await db.compactRange('', 'x')
  await db.close()
  await db.open()
  await db.put('7', 'new')
  const read = ['7', 'missing', ...keys.slice(1000, 3000), 'none', '7']
  const expected = read.map(key => key === '7' ? 'new' : keys.includes(key) ? key + 'v'.repeat(100) : undefined)
  const present = expected.map(value => value !== undefined)
  t.same(await db.hasMany(read), present)
  const isExpected = values => values.every((value, i) => value === expected[i])
  t.ok(isExpected(await db.getMany(read)))
  t.same(await db.hasMany(read), present)
  t.ok(isExpected(await db.getMany(read)), 'again, from memory')
  await db.close()
})
