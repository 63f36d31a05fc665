// ioredis: pipelines, MULTI, types, own commands as scripts, streams, channels.
const assert = require('node:assert')
const Redis = require('ioredis')

async function main() {
  const client = new Redis(Number(process.argv[2]))
  await client.flushall()
  const results = await client.pipeline().set('a', 1).incr('a').get('a').exec()
  assert.deepEqual(results, [[null, 'OK'], [null, 2], [null, '2']])
  assert.deepEqual(await client.multi().mset({ b: 1, c: 2 }).mget('b', 'c').exec(),
    [[null, 'OK'], [null, ['1', '2']]])
  client.defineCommand('swap', {
    numberOfKeys: 2,
    lua: `local a, b = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
          redis.call('MSET', KEYS[1], b, KEYS[2], a)
          return {b, a}`,
  })
  assert.deepEqual(await client.swap('b', 'c'), ['2', '1'])
  assert.equal(await client.hset('h', { f: 1, g: 2 }), 2)
  assert.deepEqual(await client.hgetall('h'), { f: '1', g: '2' })
  assert.equal(await client.rpush('l', 'x', 'y'), 2)
  assert.deepEqual(await client.brpop('l', 1), ['l', 'y'])
  assert.deepEqual(await client.zadd('z', 1, 'm', 2, 'n'), 2)
  assert.deepEqual(await client.zrangebyscore('z', '(1', '+inf', 'WITHSCORES'), ['n', '2'])
  const id = await client.xadd('x', '*', 'f', 'v')
  assert.deepEqual(await client.xrange('x', '-', '+'), [[id, ['f', 'v']]])
  const subscriber = new Redis(Number(process.argv[2]))
  await subscriber.psubscribe('news.*')
  const received = new Promise((resolve) => subscriber.on('pmessage', (...message) => resolve(message)))
  await client.publish('news.local', 'hello')
  assert.deepEqual(await received, ['news.*', 'news.local', 'hello'])
  const keys = []
  for await (const part of client.scanStream({ match: '?', count: 2 })) keys.push(...part)
  assert.deepEqual([...new Set(keys)].sort(), ['a', 'b', 'c', 'h', 'l', 'x', 'z'])
  subscriber.disconnect()
  await client.quit()
  console.log('done')
}

main()
