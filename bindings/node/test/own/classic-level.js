'use strict'

// Behaviour that programs of classic-level may rely on. Each test runs with both packages.

const test = require('tape')
const { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } = require('fs')
const { join } = require('path')
const { ClassicLevel } = require('classic-level')
const { TerraceLevel } = require('../..')
const { temporaryDirectory } = require('../directories')

/** Defines a test for each package. `run` gets an open database with four entries. */
function both (name, run) {
  for (const Level of [ClassicLevel, TerraceLevel]) {
    test(`${name}: ${Level.name}`, async t => {
      const location = temporaryDirectory()
      const db = new Level(location)
      await db.batch([...'abcd'].map((key, i) => ({ type: 'put', key, value: String(i) }))).catch(t.error)
      await run(t, db, Level, location)
      await db.close()
    })
  }
}

both('destroy() removes the directory', async (t, db, Level, location) => {
  await db.close()
  await Level.destroy(location)
  t.notOk(existsSync(location))
})

both('destroy() keeps other files', async (t, db, Level, location) => {
  writeFileSync(join(location, 'notes'), 'text')
  await db.close()
  await Level.destroy(location)
  t.same(readdirSync(location), ['notes'])
})

both('destroy() of a directory without a database', async (t, db, Level) => {
  const missing = temporaryDirectory()
  await Level.destroy(missing)
  await Level.destroy(join(missing, 'a', 'b'))
  t.notOk(existsSync(missing), 'it creates nothing')
  mkdirSync(join(missing, 'folder'), { recursive: true })
  writeFileSync(join(missing, 'notes'), 'text')
  await Level.destroy(missing)
  t.same(readdirSync(missing).sort(), ['folder', 'notes'])
  await Level.destroy(join(missing, 'notes')).catch(t.error)
  await Level.destroy(join(missing, 'notes', 'below')).catch(t.error)
  t.same(readdirSync(missing).sort(), ['folder', 'notes'], 'a file stays')
})

both('open() creates all directories, or none', async (t, db, Level) => {
  const location = join(temporaryDirectory(), 'a', 'b')
  const refused = await new Level(location, { createIfMissing: false }).open().catch(error => error)
  t.is(refused.code, 'LEVEL_DATABASE_NOT_OPEN')
  t.ok(refused.cause instanceof Error)
  t.notOk(existsSync(location))
  const other = new Level(location)
  await other.open()
  t.ok(existsSync(location))
  await other.close()
})

// The repair of classic-level also turns the logs of an undamaged database into tables.
both('repair() restores a database without CURRENT', async (t, db, Level, location) => {
  await db.close()
  rmSync(join(location, 'CURRENT'))
  await Level.repair(location)
  await db.open()
  t.same(await db.values().all(), ['0', '1', '2', '3'])
  const error = await Level.repair(join(temporaryDirectory(), 'a', 'b')).catch(error => error)
  t.ok(/no such file or directory/i.test(error.message), error.message)
})

both('getProperty()', async (t, db) => {
  t.throws(() => db.getProperty(), { name: 'TypeError' })
  t.is(db.getProperty('leveldb.unknown'), '')
  t.is(db.getProperty('leveldb.num-files-at-level0'), '0')
  const levels = [0, 1, 2, 3, 4, 5, 6].map(level => `--- level ${level} ---\n`)
  t.is(db.getProperty('leveldb.sstables'), levels.join(''))
  t.ok(db.getProperty('leveldb.stats').split('\n').length > 3)
})

both('an iterator fetches one entry first and after a seek', async (t, db) => {
  const iterator = db.iterator()
  const cached = []
  const next = async () => cached.push([(await iterator.next())[0], iterator.cached > 0])
  await next()
  await next()
  iterator.seek('c')
  await next()
  t.same(cached, [['a', false], ['b', true], ['c', false]])
  t.same(await iterator.nextv(10), [['d', '3']])
  t.same(await iterator.nextv(10), [])
  iterator.seek('b')
  t.same([await iterator.next(), await iterator.next()].map(([key]) => key), ['b', 'c'])
  t.same(await iterator.nextv(1), [['d', '3']], 'from the cache')
})

both('close() ends forgotten iterators that still read', async (t, db) => {
  const reads = []
  for (let i = 0; i < 200; i++) {
    db.iterator({ highWaterMarkBytes: 0 })
    reads.push(db.iterator({ highWaterMarkBytes: 0 }).next())
  }
  const iterator = db.iterator({ highWaterMarkBytes: 0 })
  const forever = (async () => { while (await iterator.next() !== undefined) iterator.seek('a') })()
    .catch(error => error.code)
  await new Promise(resolve => setTimeout(resolve, 5))
  await db.close()
  t.is((await Promise.allSettled(reads)).filter(({ value }) => value?.[0] === 'a').length, 200)
  t.is(await forever, 'LEVEL_ITERATOR_NOT_OPEN')
})

both('compression: false stores data as it is', async (t, db, Level) => {
  for (const compression of [true, false]) {
    const other = new Level(temporaryDirectory(), { compression })
    await other.put('key', 'a'.repeat(1 << 20))
    await other.compactRange('a', 'z')
    t.is(await other.approximateSize('a', 'z') > 1 << 19, !compression)
    await other.close()
  }
})

// close() failed, and the database could be neither used nor closed.
both('close() after the directory was removed', async (t, db, Level, location) => {
  rmSync(location, { recursive: true })
  await db.close()
  t.is(db.status, 'closed')
})

// The suite of abstract-level has a test of this sentence of its README, but does not run it. A seek to a key before the
// range went to the first entry of the range.
both('a seek() out of the range ends the iterator', async (t, db) => {
  for (const [range, target, expected] of [
    [{ gte: 'b', lt: 'd' }, 'a'], [{ gte: 'b', lt: 'd' }, 'b', 'b'], [{ gte: 'b', lt: 'd' }, 'c', 'c'],
    [{ gte: 'b', lt: 'd' }, 'd'], [{ gt: 'b' }, 'b'], [{ gt: 'b' }, 'bb', 'c'], [{ lte: 'c' }, 'c', 'c'],
    [{ lte: 'c' }, 'cc'], [{ gte: 'b', lte: 'c', reverse: true }, 'd'], [{ lt: 'c', reverse: true }, 'c'],
    [{ lt: 'c', reverse: true }, 'bb', 'b'], [{ gt: 'b', reverse: true }, 'b'], [{ gt: 'b', reverse: true }, 'z', 'd']
  ]) {
    const iterator = db.keys(range)
    await iterator.next()
    iterator.seek(target)
    t.is(await iterator.next(), expected, `${JSON.stringify(range)} ${target}`)
    if (expected === undefined) t.same(await iterator.nextv(4), [], 'nextv()')
    const inside = range.gt === undefined ? 'b' : 'c'
    iterator.seek(inside)
    t.is(await iterator.next(), inside, 'a seek back')
    await iterator.close()
  }
})

// A slice of a chunk began at any byte, and the constructors of typed arrays refused most of them.
both('keys and values of an iterator are readable as typed arrays', async (t, db, Level) => {
  const vectors = new Level(temporaryDirectory(), { keyEncoding: 'view', valueEncoding: 'view' })
  const bytes = array => new Uint8Array(array.buffer)
  for (let i = 0; i < 300; i++) {
    await vectors.put(bytes(new Uint32Array(1 + i % 3).fill(i)), bytes(new Float64Array(i % 4).fill(i / 2)))
  }
  const words = view => new Uint32Array(view.buffer, view.byteOffset, view.byteLength / 4)
  const floats = view => new Float64Array(view.buffer, view.byteOffset, view.byteLength / 8)
  const check = (key, value) => words(key).every(word => word === words(key)[0]) && words(key).length === 1 + words(key)[0] % 3 &&
    floats(value).every(float => float === words(key)[0] / 2) && floats(value).length === words(key)[0] % 4
  for (const reverse of [false, true]) {
    const entries = await vectors.iterator({ reverse }).all()
    t.is(entries.filter(([key, value]) => check(key, value)).length, 300, `all(), reverse: ${reverse}`)
  }
  let found = 0
  for await (const [key, value] of vectors.iterator()) found += check(key, value)
  t.is(found, 300, 'for await')
  t.is((await vectors.values({ keyEncoding: 'utf8' }).all()).filter(value => floats(value).length < 4).length, 300, 'values()')
  t.is((await vectors.keys().all()).filter(key => words(key).length < 4).length, 300, 'keys()')
  t.is((await vectors.iterator({ keyEncoding: 'hex' }).all()).filter(([key, value]) =>
    check(Buffer.copyBytesFrom(Buffer.from(key, 'hex')), value)).length, 300, 'strings and views')
  await vectors.close()
})
