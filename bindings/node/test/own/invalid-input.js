'use strict'

const test = require('tape')
const { execFileSync } = require('child_process')
const { join } = require('path')
const { TerraceLevel } = require('../..')
const binding = require('../../lib/binding')
const { temporaryDirectory } = require('../directories')

async function codeOf (promise) {
  try {
    await promise
  } catch (error) {
    return error.cause?.code ?? error.cause?.name ?? error.code
  }
}

test('options of the wrong type or out of bounds', async t => {
  const cases = [
    [{ cacheSize: '8' }, 'TypeError'],
    [{ createIfMissing: 1, cacheSize: {} }, 'TypeError'],
    [{ multithreading: 'yes' }, 'TypeError'],
    [{ cacheSize: -1 }, 'LEVEL_INVALID_ARGUMENT'],
    [{ writeBufferSize: NaN }, 'LEVEL_INVALID_ARGUMENT'],
    [{ blockSize: 1.5 }, 'LEVEL_INVALID_ARGUMENT'],
    [{ maxOpenFiles: Infinity }, 'LEVEL_INVALID_ARGUMENT'],
    [{ compression: 'brotli' }, 'LEVEL_INVALID_ARGUMENT'],
    [{ readOnly: true, follow: true }, 'LEVEL_INVALID_ARGUMENT'],
    [{ createIfMissing: false }, 'LEVEL_INVALID_ARGUMENT']
  ]
  for (const [options, code] of cases) {
    t.is(await codeOf(new TerraceLevel(temporaryDirectory(), options).open()), code, JSON.stringify(options))
  }
})

test('locations of the wrong type', async t => {
  for (const location of ['', 7, null, undefined, {}]) {
    t.throws(() => new TerraceLevel(location), TypeError)
    t.is(await TerraceLevel.destroy(location).catch(error => error.name), 'TypeError')
    t.is(await TerraceLevel.repair(location).catch(error => error.name), 'TypeError')
  }
})

// getMany() and hasMany() rejected with an error without a code.
test('an encoding that returns no bytes', async t => {
  const keyEncoding = { name: 'nothing', format: 'utf8', encode: () => undefined, decode: String }
  for (const [mainThread, code] of [[true, 'ERR_INVALID_ARG_TYPE'], [false, 'InvalidArg']]) {
    const db = new TerraceLevel(temporaryDirectory(), { mainThread })
    await db.open()
    for (const method of ['get', 'getMany', 'has', 'hasMany']) {
      const argument = method.endsWith('Many') ? ['a', 'b'] : 'a'
      const call = async () => db[method](argument, { keyEncoding })
      t.is(await codeOf(call()), code, `${method}, mainThread ${mainThread}`)
    }
    await db.close()
  }
})

// Each function of the native part, with each argument of each kind. No call may crash.
test('the native part refuses every handle and type that it does not know', async t => {
  const strange = [undefined, null, true, -1, 0.5, NaN, Infinity, 2 ** 53, 7777, 'text', '', {}, [],
    Buffer.from('b'), new Float64Array(2), Symbol('s'), () => {}, 10n]
  let calls = 0
  for (const [name, call] of Object.entries(binding)) {
    if (['destroy', 'repair', 'open'].includes(name)) continue
    for (const first of strange) {
      for (const second of strange) {
        try {
          const result = call(first, second, second, second, second, second, second)
          if (result instanceof Promise) await result.catch(() => {})
        } catch (error) {
          if (!(error instanceof Error)) return t.fail(`${name} threw ${error}`)
        }
        calls++
      }
    }
  }
  t.ok(calls > 5000, 'calls returned or threw an Error')
})

test('handles of closed objects are errors', async t => {
  const db = await binding.open(temporaryDirectory(), { createIfMissing: true })
  const scan = binding.scanNew(db, 0, 0)
  binding.scanFree(scan)
  binding.scanFree(scan)
  t.throws(() => binding.scanSeek(scan, 'a'), { code: 'LEVEL_INVALID_HANDLE' })
  t.throws(() => binding.scanNew(db, 0, db), { code: 'LEVEL_INVALID_HANDLE' })
  await binding.close(db)
  t.throws(() => binding.tryGet(db, 'a', 0, 0), { code: 'LEVEL_INVALID_HANDLE' })
  t.throws(() => binding.tryPut(db, 'a', 'b'), { code: 'LEVEL_INVALID_HANDLE' })
  t.throws(() => binding.close(db))
})

test('keys and values of unusual content', async t => {
  const db = new TerraceLevel(temporaryDirectory())
  const large = 'ä€😀'.repeat(100000)
  const pairs = [['', 'empty key'], ['empty value', ''], ['\0', '\0'], ['\ud800', 'lone surrogate'],
    ['large', large], ['ä'.repeat(300), 'x'.repeat(511)], ['x'.repeat(508), 'y'.repeat(512)]]
  for (const [key, value] of pairs) await db.put(key, value)
  for (const [key, value] of pairs) t.ok(await db.get(key) === value, JSON.stringify(key.slice(0, 9)))
  for (const [key, value] of pairs) t.ok(db.getSync(key) === value, 'getSync')
  t.is(await db.get('\ufffd'), 'lone surrogate', 'UTF-8 has no lone surrogates')
  const invalid = Buffer.from([0x61, 0xff, 0x62])
  await db.put(invalid, invalid, { keyEncoding: 'buffer', valueEncoding: 'buffer' })
  t.same(await db.get(invalid, { keyEncoding: 'buffer', valueEncoding: 'buffer' }), invalid)
  t.is(await db.get(invalid, { keyEncoding: 'buffer' }), 'a\ufffdb')
  for (let length = 500; length < 530; length++) {
    const key = 'k'.repeat(length)
    await db.put(key, key + 'ß')
    if (await db.get(key) !== key + 'ß') t.fail(`length ${length}`)
  }
  await db.close()
})

test('iterators return strings of all lengths', async t => {
  for (const last of ['ASCII', 'Zürich']) {
    const db = new TerraceLevel(temporaryDirectory())
    const pairs = Array.from({ length: 500 }, (_, i) => ['k' + String(i).padStart(3 + i % 20, '0'), String(i).repeat(i * 11 % 400)])
    pairs.push(['key', last])
    await db.batch(pairs.map(([key, value]) => ({ type: 'put', key, value })))
    const expected = pairs.sort(([a], [b]) => a < b ? -1 : 1)
    t.same(await db.iterator().all(), expected, 'all()')
    t.same(await db.iterator({ reverse: true }).all(), expected.slice().reverse(), 'reverse')
    t.same(await db.keys().all(), expected.map(([key]) => key), 'keys()')
    t.same(await db.values().all(), expected.map(([, value]) => value), 'values()')
    const iterator = db.iterator()
    for (const position of [300, 0, 77, 499]) {
      iterator.seek(expected[position][0])
      t.same([await iterator.next(), await iterator.next()], expected.slice(position, position + 2), `seek ${position}`)
    }
    await iterator.close()
    await db.close()
  }
})

test('batches keep the bytes of each part', async t => {
  const db = new TerraceLevel(temporaryDirectory())
  await db.open()
  const buffer = Buffer.from('buffer')
  const parts = ['a', 'ä', '\ud83d', '\ude00', '😀', '', 'x'.repeat(4096), 'x'.repeat(4097), '\0', '\x7f', '\x80', 'ÿ']
  const expected = new Map()
  const batches = [db.batch(), []]
  for (let round = 0; round < 60; round++) {
    for (const [i, part] of parts.entries()) {
      const key = (round % 3 === 0 ? part : '') + 'k' + round + '/' + i
      const value = parts[(i + round) % parts.length]
      batches[0].put(key, value)
      batches[1].push({ type: 'put', key, value })
      expected.set(Buffer.from(key).toString(), Buffer.from(value).toString())
    }
    if (round % 7 !== 0) continue
    const key = 'k' + (round - 7) + '/0'
    batches[0].del(key).del(Buffer.from('none'), { keyEncoding: 'buffer' })
      .put('buffer', buffer, { valueEncoding: 'buffer' }).del('none').put('order', '1').del('order')
    batches[1].push({ type: 'del', key }, { type: 'put', key: 'buffer', value: buffer, valueEncoding: 'buffer' })
    expected.delete(key)
  }
  buffer.fill('x') // After the calls of the chained batch, which has copied it, and before the other batch.
  const found = async () => new Map(await db.iterator().all())
  await batches[0].write()
  t.same(await found(), expected.set('buffer', 'buffer'), 'chained batch')
  await db.clear()
  await db.batch(batches[1])
  t.same(await found(), expected.set('buffer', 'xxxxxx'), 'array')
  const cleared = db.batch().put('old', '1').put('old2', '2').clear().put('new', '1').del('buffer')
  await db.clear()
  await cleared.write()
  t.same(await db.keys().all(), ['new'], 'clear')
  await db.close()
})

test('a value of 512 MiB', async t => {
  const db = new TerraceLevel(temporaryDirectory(), { valueEncoding: 'buffer' })
  const value = Buffer.alloc(512 << 20, 'v')
  await db.put('large', value)
  t.ok((await db.get('large')).equals(value), 'as a Buffer')
  const error = await db.get('large', { valueEncoding: 'utf8' }).catch(error => error)
  t.is(error.code, 'LEVEL_NOT_SUPPORTED', 'no string is so long')
  await db.put('small', Buffer.from('s'))
  t.is(String(await db.get('small')), 's', 'the database works afterwards')
  await db.close()
})

test('a missing native part, and a platform without one', t => {
  const messageOf = prelude => {
    const code = `${prelude} try { require(${JSON.stringify(join(__dirname, '../..'))}) } catch (e) { console.log(e.message) }`
    const { TERRACE_LEVEL_NATIVE, ...env } = process.env
    return String(execFileSync(process.execPath, ['-e', code], { env }))
  }
  t.ok(messageOf('').includes('Install it without --omit=optional'))
  const other = messageOf("Object.defineProperty(process, 'arch', { value: 'riscv64' });")
  t.ok(other.includes('no native part for linux-riscv64-gnu. It has one for: linux-x64-gnu'), other)
  t.end()
})

test('bounds that are typed arrays of any kind', async t => {
  const db = new TerraceLevel(temporaryDirectory(), { keyEncoding: 'view' })
  await db.put(new Uint8Array([1, 0, 1]), 'a')
  for (const bound of [new Uint16Array([1]), new DataView(new ArrayBuffer(2)), new Uint8ClampedArray(2)]) {
    t.is((await db.keys({ gt: bound }).all()).length, 1)
    t.is((await db.keys({ lte: bound }).all()).length, 0)
  }
  await db.close()
})

test('an encoding that returns nothing', async t => {
  const db = new TerraceLevel(temporaryDirectory(), { keyEncoding: 'json', valueEncoding: 'json' })
  await db.open()
  for (const call of [
    () => db.put('a', () => 1), () => db.put(() => 1, 'a'), () => db.del(() => 1), () => db.get(() => 1),
    () => db.has(() => 1), () => db.batch([{ type: 'put', key: 'a', value: () => 1 }])
  ]) {
    t.is(await codeOf(call()), 'ERR_INVALID_ARG_TYPE', String(call))
  }
  await db.close()
})
