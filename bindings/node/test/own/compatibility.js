'use strict'

// The same files and the same programs as classic-level and level.

const test = require('tape')
const { execFileSync } = require('child_process')
const { readdirSync, readFileSync, rmSync, writeFileSync } = require('fs')
const { join } = require('path')
const classic = require('classic-level')
const level = require('level')
const { MemoryLevel } = require('memory-level')
const terrace = require('../..')
const { TerraceLevel } = terrace
const { temporaryDirectory } = require('../directories')

const PACKAGE = join(__dirname, '../..')

function random (seed) {
  let state = seed
  return bound => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % bound
  }
}

/** Applies the same random operations to all databases. */
async function change (databases, next) {
  for (let i = 0; i < 300; i++) {
    const key = 'key' + next(200)
    const value = String(next(1e9)).repeat(1 + next(40))
    const call = [
      db => db.put(key, value, { sync: i % 100 === 0 }),
      db => db.del(key),
      db => db.batch([{ type: 'put', key, value }, { type: 'del', key: key + '0' }]),
      db => db.batch().put(key + 'c', value).del(key).write(),
      db => db.clear({ gte: key, limit: 3 }),
      db => db.clear({ gt: key, lt: key + '5' })
    ][next(40) < 30 ? next(4) : next(6)]
    for (const db of databases) await call(db)
  }
}

test('classic-level and this package write one database in random turns', async t => {
  for (let seed = 1; seed <= 4; seed++) {
    const next = random(seed)
    const location = temporaryDirectory()
    const model = new MemoryLevel()
    for (let turn = 0; turn < 12; turn++) {
      const Level = next(2) === 0 ? TerraceLevel : classic.ClassicLevel
      const db = new Level(location)
      await db.open()
      await change([db, model], next)
      const expected = await model.iterator().all()
      const found = await db.iterator().all()
      await db.close()
      if (JSON.stringify(found) !== JSON.stringify(expected)) return t.fail(`seed ${seed}, turn ${turn}: ${Level.name}`)
    }
  }
  t.pass('the contents were those of a model in 48 turns')
})

test('codes of errors are those of classic-level', async t => {
  for (const Level of [classic.ClassicLevel, TerraceLevel]) {
    const location = temporaryDirectory()
    const db = new Level(location)
    await db.open()
    t.is(await new Level(location).open().catch(error => error.cause.code), 'LEVEL_LOCKED', Level.name)
    for (let i = 0; i < 1000; i++) await db.put('key' + i, 'value' + i)
    await db.compactRange('a', 'z')
    t.ok(await db.approximateSize('a', 'z') > 0, 'approximateSize')
    await db.close()
    const code = async call => call().then(() => null, error => error.code)
    t.is(await code(() => db.get('a')), 'LEVEL_DATABASE_NOT_OPEN')
    t.is(await code(() => db.put('a', 'b')), 'LEVEL_DATABASE_NOT_OPEN')
    t.is(await code(() => db.approximateSize('a', 'b')), 'LEVEL_DATABASE_NOT_OPEN')
    const table = readdirSync(location).find(name => name.endsWith('.ldb'))
    const content = readFileSync(join(location, table))
    content.fill(0xff, 0, 1000)
    writeFileSync(join(location, table), content)
    await db.open()
    t.is(await code(() => db.get('key0')), 'LEVEL_CORRUPTION')
    t.is(await code(() => db.getMany(['key0', 'key1'])), 'LEVEL_CORRUPTION')
    await db.close()
    rmSync(join(location, 'CURRENT'))
    await Level.repair(location)
    await db.open()
    t.ok((await db.keys().all()).length > 0, 'repair')
    await db.close()
    await Level.destroy(location)
    t.is(await new Level(location, { createIfMissing: false }).open().catch(error => error.code),
      'LEVEL_DATABASE_NOT_OPEN')
  }
})

test('properties, statistics and a checkpoint', async t => {
  const location = temporaryDirectory()
  const copy = temporaryDirectory()
  const db = new TerraceLevel(location)
  t.throws(() => db.getProperty('leveldb.stats'), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await db.put('a', '1')
  t.ok(db.getProperty('leveldb.stats').includes('Compactions'))
  t.is(db.getProperty('unknown'), '')
  t.is(db.stats().last_sequence, 1)
  t.is(await db.checkpoint(copy), 1)
  await db.put('a', '2')
  const other = new TerraceLevel(copy, { readOnly: true })
  t.is(await other.get('a'), '1')
  t.is(await other.put('a', '3').catch(error => error.code), 'LEVEL_NOT_SUPPORTED')
  t.is(await db.checkpoint(copy).catch(error => error.code), 'LEVEL_INVALID_ARGUMENT', 'the copy exists')
  await other.close()
  await db.close()
})

test('a program of `level` with sublevels and encodings runs on the same files', async t => {
  const program = async Level => {
    const db = new Level(location, { valueEncoding: 'json' })
    const users = db.sublevel('users', { valueEncoding: 'json' })
    await users.batch([{ type: 'put', key: 'ann', value: { age: 7 } }, { type: 'put', key: 'bob', value: { age: 9 } }])
    await db.put('n', [1, 2, 3])
    const result = [await users.get('ann'), await users.iterator().all(), await db.keys().all(), await db.get('n')]
    await users.clear({ lt: 'b' })
    result.push(await users.values().all())
    await db.close()
    return result
  }
  const location = temporaryDirectory()
  const expected = await program(level.Level)
  t.same(await program(terrace.Level), expected)
  t.same(await program(level.Level), expected, 'back with level')
})

test('ECMAScript modules and CommonJS have the same class', t => {
  const code = `import * as esm from ${JSON.stringify(join(PACKAGE, 'index.mjs'))}
    import { createRequire } from 'module'
    const cjs = createRequire(${JSON.stringify(PACKAGE + '/')})('./index.js')
    console.log(Object.keys(esm).sort().join(), Object.keys(esm).every(name => esm[name] === cjs.TerraceLevel))`
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', code])
  t.is(String(output), 'ClassicLevel,Level,TerraceLevel true\n')
  t.end()
})

test('the types accept the program of the guide, and refuse errors', t => {
  const tsc = join(PACKAGE, 'node_modules/typescript/bin/tsc')
  execFileSync(process.execPath, [tsc, '--project', join(PACKAGE, 'test/types')], { stdio: 'inherit' })
  t.pass('tsc')
  t.end()
})
