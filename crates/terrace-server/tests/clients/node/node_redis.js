// node-redis: strings, MULTI, WATCH, types, scripts, channels.
const assert = require('node:assert')
const { createClient, defineScript, WatchError } = require('redis')

const options = {
  url: `redis://127.0.0.1:${process.argv[2]}`,
  scripts: {
    double: defineScript({
      NUMBER_OF_KEYS: 1,
      SCRIPT: 'return redis.call("GET", KEYS[1]) * 2',
      transformArguments: (key) => [key],
    }),
  },
}

async function main() {
  const client = createClient(options)
  client.on('error', (error) => { throw error })
  await client.connect()
  await client.flushAll()
  assert.equal(await client.set('a', '21', { EX: 100, NX: true }), 'OK')
  assert.equal(await client.double('a'), 42)
  assert.deepEqual(await client.multi().incr('a').get('a').exec(), [22, '22'])
  await assert.rejects(
    client.executeIsolated(async (isolated) => {
      await isolated.watch('a')
      await client.set('a', '1')
      await isolated.multi().get('a').exec()
    }),
    WatchError,
  )
  assert.equal(await client.hSet('h', { f: '1', g: '2' }), 2)
  assert.deepEqual({ ...await client.hGetAll('h') }, { f: '1', g: '2' })
  assert.equal(await client.lPush('l', ['a', 'b']), 2)
  assert.deepEqual({ ...await client.blPop('l', 1) }, { key: 'l', element: 'b' })
  assert.equal(await client.sAdd('s', ['x', 'y']), 2)
  assert.equal(await client.zAdd('z', [{ score: 1.5, value: 'm' }]), 1)
  assert.equal(await client.zScore('z', 'm'), 1.5)
  const keys = []
  for await (const key of client.scanIterator({ MATCH: '?' })) keys.push(key)
  assert.deepEqual(keys.sort(), ['a', 'h', 'l', 's', 'z'])
  const subscriber = client.duplicate()
  await subscriber.connect()
  const received = new Promise((resolve) => subscriber.subscribe('news', resolve).then(
    () => client.publish('news', 'hello')))
  assert.equal(await received, 'hello')
  await subscriber.quit()
  await client.quit()
  console.log('done')
}

main()
