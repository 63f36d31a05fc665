import { ClassicLevel, Level, TerraceLevel, type Stats } from '../..'

async function program (): Promise<void> {
  const db = new TerraceLevel<string, number>('cities', { valueEncoding: 'json', memoryBudget: 1 << 26 })
  await db.open({ multithreading: true })
  await db.put('bern', 134794, { sync: true })
  const one: number | undefined = await db.get('bern')
  const same: number | undefined = db.getSync('bern')
  const many: Array<number | undefined> = await db.getMany(['bern', 'chur'])
  const present: boolean[] = await db.hasMany(['bern'])
  for await (const [key, value] of db.iterator({ gte: 'a', limit: 3, highWaterMarkBytes: 1024 })) {
    const name: string = key
    const count: number = value
    console.log(name, count)
  }
  const bytes: Uint8Array | undefined = await db.get('bern', { valueEncoding: 'view' })
  await db.batch([{ type: 'put', key: 'a', value: 1 }, { type: 'del', key: 'b' }], { sync: true })
  await db.batch().put('a', 1).del('b').write({ sync: true })
  const snapshot = db.snapshot()
  await db.clear({ gte: 'x', snapshot })
  await snapshot.close()
  const size: number = await db.approximateSize('a', 'b')
  await db.compactRange('a', 'b')
  const sequence: number = await db.checkpoint('copy')
  const stats: Stats = db.stats()
  const follower: TerraceLevel = new ClassicLevel('cities', { follow: true, followEvery: 5 })
  const caught: number = await follower.catchUp()
  await TerraceLevel.destroy('copy')
  await Level.repair('cities')
  await db.close()
  console.log(one, same, many, present, bytes, size, sequence, stats.last_sequence, caught)
}

// @ts-expect-error A location is required.
new TerraceLevel()
// @ts-expect-error A size is a number.
new TerraceLevel('cities', { cacheSize: '8 MiB' })

export { program }
