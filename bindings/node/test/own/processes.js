'use strict'

// Threads and processes: shared databases, exits without a close, kill -9, followers.

const test = require('tape')
const { execFileSync, fork, spawnSync } = require('child_process')
const { once } = require('events')
const { readFileSync, rmSync, writeFileSync } = require('fs')
const { join } = require('path')
const { Worker } = require('worker_threads')
const { TerraceLevel } = require('../..')
const { temporaryDirectory } = require('../directories')

const PACKAGE = join(__dirname, '../..')
const HEAD = `const { TerraceLevel } = require(${JSON.stringify(PACKAGE)});`

function startWorker (workerData, body) {
  const code = `${HEAD} const { workerData, parentPort } = require('worker_threads');
    (async () => { ${body} })().then(() => parentPort.postMessage('done'), error => { throw error })`
  return new Worker(code, { eval: true, workerData })
}

test('threads share a database by its path', async t => {
  const location = temporaryDirectory()
  const db = new TerraceLevel(location, { multithreading: true })
  await db.open()
  const workers = [0, 1, 2, 3].map(id => startWorker({ location, id }, `
    const { location, id } = workerData
    const db = new TerraceLevel(location, { multithreading: true })
    for (let i = 0; i < 2000; i++) await db.put(id + ' ' + i, 'value', { sync: i % 500 === 0 })
    await db.close()`))
  for (let i = 0; i < 2000; i++) await db.put(`main ${i}`, 'value')
  await Promise.all(workers.map(worker => once(worker, 'exit')))
  t.is((await db.keys().all()).length, 10000)
  const second = new TerraceLevel(location)
  t.is(await second.open().catch(error => error.cause.code), 'LEVEL_LOCKED', 'only with multithreading')
  await db.close()
  await second.open()
  await second.close()
})

test('only `multithreading` joins an earlier opener', async t => {
  const location = temporaryDirectory()
  const first = new TerraceLevel(location)
  await first.open()
  const joined = new TerraceLevel(location, { multithreading: true })
  await joined.open()
  await first.put('a', '1')
  await first.close()
  t.is(await joined.get('a'), '1', 'the last close closes the database')
  await joined.put('a', '2')
  const third = new TerraceLevel(location)
  t.is(await third.open().catch(error => error.cause.code), 'LEVEL_LOCKED')
  await joined.close()
  t.is(await third.get('a').catch(error => error.code), 'LEVEL_DATABASE_NOT_OPEN')
  await third.open()
  t.is(await third.get('a'), '2')
  await third.close()
})

test('a hundred threads open and close one database', async t => {
  const location = temporaryDirectory()
  const workers = Array.from({ length: 100 }, (_, id) => startWorker({ location, id }, `
    const db = new TerraceLevel(workerData.location, { multithreading: true })
    await db.put('k' + workerData.id, 'value')
    await db.close()`))
  const exits = await Promise.all(workers.map(worker => once(worker, 'exit')))
  t.same(exits.filter(([code]) => code !== 0), [])
  const db = new TerraceLevel(location)
  t.is((await db.keys().all()).length, 100)
  await db.close()
})

test('a thread that closes in the middle gets only errors of a closed database', async t => {
  const location = temporaryDirectory()
  const db = new TerraceLevel(location, { multithreading: true })
  await db.open()
  const workers = [0, 1, 2].map(id => startWorker({ location, id }, `
    const { location, id } = workerData
    const closed = new Set(['LEVEL_DATABASE_NOT_OPEN', 'LEVEL_ITERATOR_NOT_OPEN', 'LEVEL_BATCH_NOT_OPEN',
      'LEVEL_SNAPSHOT_NOT_OPEN'])
    for (let round = 0; round < 20; round++) {
      const db = new TerraceLevel(location, { multithreading: true })
      await db.open()
      const loop = async call => {
        for (let i = 0; ; i++) {
          try { await call(i) } catch (error) {
            if (closed.has(error.code)) return
            throw error
          }
        }
      }
      const loops = [
        loop(i => db.put('k' + i % 1000, 'value')), loop(i => db.get('k' + i % 1000)),
        loop(i => db.put('k' + i, 'value', { sync: true })), loop(() => db.iterator({ limit: 500 }).all()),
        loop(i => db.batch().put('k', 'v').del('l' + i).write()), loop(() => db.clear({ gte: 'k5', lt: 'k6' })),
        loop(async i => { const snapshot = db.snapshot(); await db.getMany(['k1', 'k2'], { snapshot }); await snapshot.close() })
      ]
      await new Promise(resolve => setTimeout(resolve, 20))
      await db.close()
      await Promise.all(loops)
    }`))
  const exits = await Promise.all(workers.map(worker => once(worker, 'exit')))
  t.same(exits, [[0], [0], [0]])
  await db.put('after', 'works')
  t.is(await db.get('after'), 'works')
  await db.close()
})

test('a terminated thread releases the database', async t => {
  const location = temporaryDirectory()
  for (let round = 0; round < 10; round++) {
    const worker = startWorker({ location }, `
      const db = new TerraceLevel(workerData.location)
      await db.open()
      parentPort.postMessage('open')
      for (let i = 0; ; i++) {
        db.put('sync' + i, 'value', { sync: true })
        for await (const entry of db.iterator({ limit: 10000 })) await db.put('k' + i, entry[0])
      }`)
    await once(worker, 'message')
    await new Promise(resolve => setTimeout(resolve, 10 * round))
    await worker.terminate()
    const db = new TerraceLevel(location)
    await db.open()
    await db.close()
  }
  t.pass('10 times')
})

test('an exit without a close keeps all writes', async t => {
  for (const exit of ['', 'process.exit(0)', 'process.exitCode = 0; throw 1']) {
    const location = temporaryDirectory()
    const body = `${HEAD}(async () => {
      const db = new TerraceLevel(${JSON.stringify(location)})
      for (let i = 0; i < 1000; i++) await db.put('k' + i, 'value')
      const iterator = db.iterator(); await iterator.next(); db.snapshot(); ${exit} })()`
    const { signal } = spawnSync(process.execPath, ['-e', body])
    t.is(signal, null, exit || 'end of the program')
    const db = new TerraceLevel(location)
    t.is((await db.keys().all()).length, 1000)
    await db.close()
  }
})

test('kill -9 loses no write that has returned', async t => {
  const location = temporaryDirectory()
  const ledger = temporaryDirectory()
  writeFileSync(ledger, '')
  const body = `${HEAD} const { openSync, writeSync } = require('fs');
    (async () => {
      const ledger = openSync(${JSON.stringify(ledger)}, 'a')
      const db = new TerraceLevel(${JSON.stringify(location)})
      const last = Number((await db.keys({ reverse: true, limit: 1 }).all())[0] ?? 0)
      for (let i = last + 1; ; i++) {
        await db.put(String(i).padStart(9, '0'), 'x'.repeat(i % 500), { sync: i % 200 === 0 })
        writeSync(ledger, i + '\\n')
      }
    })()`
  for (let round = 0; round < 8; round++) {
    const { signal } = spawnSync(process.execPath, ['-e', body], { timeout: 250 + 50 * round, killSignal: 'SIGKILL' })
    t.is(signal, 'SIGKILL')
    const db = new TerraceLevel(location)
    const keys = (await db.keys().all()).map(Number)
    await db.close()
    const written = readFileSync(ledger, 'utf8').split('\n').slice(0, -1).map(Number)
    const present = new Set(keys)
    t.same(written.filter(key => !present.has(key)), [], `${written.length} writes`)
    t.ok(keys.length - written.length <= round + 1, 'at most one write a round was not recorded')
  }
})

test('a follower in this process reads the writer in another one', async t => {
  const location = temporaryDirectory()
  const program = temporaryDirectory()
  writeFileSync(program, `${HEAD}
    const db = new TerraceLevel(${JSON.stringify(location)})
    process.on('message', async ([key, value]) => { await db.put(key, value); process.send('written') })
    db.open().then(() => process.send('open'))`)
  const writer = fork(program)
  await once(writer, 'message')
  const follower = new TerraceLevel(location, { follow: true })
  await follower.open()
  for (let i = 0; i < 50; i++) {
    writer.send(['key', String(i)])
    await once(writer, 'message')
    await follower.catchUp()
    if (await follower.get('key') !== String(i)) t.fail(`write ${i} is missing`)
  }
  t.same(await follower.iterator().all(), [['key', '49']])
  t.is(await follower.put('key', 'x').catch(error => error.code), 'LEVEL_NOT_SUPPORTED')
  t.is(await follower.put('key', 'x', { sync: true }).catch(error => error.code), 'LEVEL_NOT_SUPPORTED')
  await follower.close()
  writer.kill()
  await once(writer, 'exit')
})

test('10^5 forgotten objects leave memory flat', t => {
  const body = `${HEAD}
    const turn = () => new Promise(resolve => setImmediate(resolve));
    (async () => {
      const db = new TerraceLevel(${JSON.stringify(temporaryDirectory())})
      for (let i = 0; i < 1000; i++) await db.put('k' + i, 'value'.repeat(100))
      const forget = async () => {
        for (let i = 0; i < 25000; i++) {
          await db.iterator().next()
          db.iterator({ reverse: true, gte: 'k5' })
          db.snapshot()
          db.batch().put('k', 'v')
          if (i % 500 === 0) { global.gc(); await turn() }
        }
        for (let i = 0; i < 5; i++) { global.gc(); await turn() }
        return process.memoryUsage().rss
      }
      const first = await forget()
      const last = await forget()
      console.log(last - first)
      await db.close()
    })()`
  const growth = Number(execFileSync(process.execPath, ['--expose-gc', '-e', body]))
  t.ok(growth < 20 << 20, `${growth >> 10} KiB more after the second 100,000 objects`)
  t.end()
})

test('a forgotten database closes', t => {
  const location = temporaryDirectory()
  const body = `${HEAD}(async () => {
    let db = new TerraceLevel(${JSON.stringify(location)}); await db.put('a', '1'); db = null
    for (let i = 0; i < 200; i++) { global.gc(); await new Promise(resolve => setTimeout(resolve, 5)) }
    db = new TerraceLevel(${JSON.stringify(location)}); console.log(await db.get('a'))
  })()`
  t.is(String(execFileSync(process.execPath, ['--expose-gc', '-e', body])), '1\n')
  t.end()
})


// The second call failed, too: the native database existed no longer.
test('close() after a close() that failed', async t => {
  const location = temporaryDirectory()
  const db = new TerraceLevel(location)
  await db.put('a', '1')
  rmSync(location, { recursive: true })
  writeFileSync(location, 'a file')
  const error = await db.close().catch(error => error)
  t.is(error?.code, 'LEVEL_DATABASE_NOT_CLOSED')
  t.is(error?.cause?.code, 'LEVEL_IO_ERROR')
  await db.close()
  t.is(db.status, 'closed')
  rmSync(location)
  await db.open()
  await db.put('a', '2')
  await db.close()
})

// A batch without a native part has no finalizer, so a reference to each one remained until the close.
test('forgotten batches free their memory', t => {
  const output = execFileSync(process.execPath, ['--expose-gc', '-e', `${HEAD}
    const forget = async db => {
      for (let i = 0; i < 100000; i++) {
        db.batch().put('a', '1')
        if (i % 5000 === 0) await new Promise(resolve => setTimeout(resolve, 1))
      }
      for (let i = 0; i < 3; i++) {
        gc()
        await new Promise(resolve => setTimeout(resolve, 20))
      }
      return process.memoryUsage().heapUsed
    }
    (async () => {
      const db = new TerraceLevel(${JSON.stringify(temporaryDirectory())})
      await db.open()
      // The heap varies by 3 MB in both directions, so the least growth counts.
      let [before, least] = [await forget(db), Infinity]
      for (let pass = 0; pass < 4; pass++) {
        const after = await forget(db)
        least = Math.min(least, after - before)
        before = after
      }
      console.log(least)
      await db.close()
    })()`])
  t.ok(Number(output) < 2e6, `${output} bytes after 100,000 more batches`)
  t.end()
})

// The copy of a chunk to a Buffer ended the process.
test('an iterator without memory for a large value', t => {
  const output = execFileSync(process.execPath, ['--expose-gc', '-e', `${HEAD}
    const { readFileSync } = require('fs')
    const large = Buffer.alloc(512 << 20)
    const limit = bytes => require('child_process').execFileSync('prlimit', ['--pid', process.pid, '--as=' + bytes + ':'])
    ;(async () => {
      const db = new TerraceLevel(${JSON.stringify(temporaryDirectory())}, { valueEncoding: 'buffer', compression: false })
      await db.put('large', large)
      await db.put('small', Buffer.from('s'))
      await db.compactRange('a', 'z') // frees the memtable
      await db.iterator().all() // creates the worker threads and maps the table
      gc()
      await new Promise(resolve => setTimeout(resolve, 500))
      limit(1024 * Number(/VmSize:\\s*(\\d+)/.exec(readFileSync('/proc/self/status'))[1]) + (768 << 20))
      console.log(await db.iterator().all().catch(error => error.code))
      limit('unlimited')
      console.log((await db.values().all()).map(value => value.length), large.length)
      await db.close()
    })()`])
  t.is(String(output), 'LEVEL_OUT_OF_MEMORY\n[ 536870912, 1 ] 536870912\n')
  t.end()
})
