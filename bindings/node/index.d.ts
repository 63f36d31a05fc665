import {
  AbstractBatchOperation,
  AbstractBatchOptions,
  AbstractChainedBatch,
  AbstractChainedBatchWriteOptions,
  AbstractDatabaseOptions,
  AbstractDelOptions,
  AbstractGetManyOptions,
  AbstractGetOptions,
  AbstractHasManyOptions,
  AbstractHasOptions,
  AbstractIterator,
  AbstractIteratorOptions,
  AbstractKeyIterator,
  AbstractKeyIteratorOptions,
  AbstractLevel,
  AbstractOpenOptions,
  AbstractPutOptions,
  AbstractSnapshot,
  AbstractValueIterator,
  AbstractValueIteratorOptions,
  Transcoder
} from 'abstract-level'

/** Ordered key-value store in a directory, with LevelDB's files. */
export class TerraceLevel<KDefault = string, VDefault = string>
  extends AbstractLevel<string | Buffer | Uint8Array, KDefault, VDefault> {
  /** Opens the database in the directory `location`, in the next turn of the event loop. */
  constructor (location: string, options?: DatabaseOptions<KDefault, VDefault> | undefined)

  /** Directory of the database. */
  get location (): string

  open (): Promise<void>
  open (options: OpenOptions): Promise<void>

  get (key: KDefault): Promise<VDefault | undefined>
  get<K = KDefault, V = VDefault> (key: K, options: GetOptions<K, V>): Promise<V | undefined>

  /** Returns the value of `key`, if need be after a read of a file. */
  getSync (key: KDefault): VDefault | undefined
  getSync<K = KDefault, V = VDefault> (key: K, options: GetOptions<K, V>): V | undefined

  getMany (keys: KDefault[]): Promise<Array<VDefault | undefined>>
  getMany<K = KDefault, V = VDefault> (keys: K[], options: GetManyOptions<K, V>): Promise<Array<V | undefined>>

  has (key: KDefault): Promise<boolean>
  has<K = KDefault> (key: K, options: HasOptions<K>): Promise<boolean>

  hasMany (keys: KDefault[]): Promise<boolean[]>
  hasMany<K = KDefault> (keys: K[], options: HasManyOptions<K>): Promise<boolean[]>

  put (key: KDefault, value: VDefault): Promise<void>
  put<K = KDefault, V = VDefault> (key: K, value: V, options: PutOptions<K, V>): Promise<void>

  del (key: KDefault): Promise<void>
  del<K = KDefault> (key: K, options: DelOptions<K>): Promise<void>

  batch (operations: Array<BatchOperation<typeof this, KDefault, VDefault>>): Promise<void>
  batch<K = KDefault, V = VDefault> (operations: Array<BatchOperation<typeof this, K, V>>, options: BatchOptions<K, V>): Promise<void>
  batch (): ChainedBatch<typeof this, KDefault, VDefault>

  iterator (): Iterator<typeof this, KDefault, VDefault>
  iterator<K = KDefault, V = VDefault> (options: IteratorOptions<K, V>): Iterator<typeof this, K, V>

  keys (): KeyIterator<typeof this, KDefault>
  keys<K = KDefault> (options: KeyIteratorOptions<K>): KeyIterator<typeof this, K>

  values (): ValueIterator<typeof this, KDefault, VDefault>
  values<K = KDefault, V = VDefault> (options: ValueIteratorOptions<K, V>): ValueIterator<typeof this, K, V>

  snapshot (options?: any | undefined): Snapshot

  /** Resolves to the approximate number of bytes that the keys from `start` to `end` take in files. */
  approximateSize (start: KDefault, end: KDefault): Promise<number>
  approximateSize<K = KDefault> (start: K, end: K, options: StartEndOptions<K>): Promise<number>

  /** Compacts the keys from `start` to `end`. */
  compactRange (start: KDefault, end: KDefault): Promise<void>
  compactRange<K = KDefault> (start: K, end: K, options: StartEndOptions<K>): Promise<void>

  /** Writes a consistent copy to the new directory `location`. Resolves to its sequence number. */
  checkpoint (location: string): Promise<number>

  /**
   * Reads everything that the writer of a followed database has stored. Resolves to the sequence
   * number of the state.
   */
  catchUp (): Promise<number>

  /** Returns a property of LevelDB or Terrace as a text. An unknown one is empty. */
  getProperty (property: string): string

  /** Returns the counters since the open, and the present size of the database. */
  stats (): Stats

  /** Deletes the database in the directory `location`. */
  static destroy (location: string): Promise<void>

  /** Restores a damaged database as far as possible. It must not be open. */
  static repair (location: string): Promise<void>
}

export { TerraceLevel as ClassicLevel, TerraceLevel as Level }

export interface DatabaseOptions<K, V> extends AbstractDatabaseOptions<K, V>, Omit<OpenOptions, 'passive'> {}

export interface OpenOptions extends AbstractOpenOptions {
  /** Compression of new tables: snappy (true), none (false), or the name of a codec. Only LevelDB's own codecs stay readable by LevelDB. Default: that of the existing tables, or snappy. */
  compression?: boolean | string | undefined

  /** Bytes of the block cache. Default: 128 MiB, in a cache that all databases of the process share. */
  cacheSize?: number | undefined

  /** Bytes of a memtable. Default: 4 to 64 MiB, by the write rate. */
  writeBufferSize?: number | undefined

  /** Bytes of a block before its compression. */
  blockSize?: number | undefined

  /** Number of tables that stay open. */
  maxOpenFiles?: number | undefined

  /** Number of keys between two restarts of the prefix compression. */
  blockRestartInterval?: number | undefined

  /** Bytes of a table. */
  maxFileSize?: number | undefined

  /** Bytes of memtables, block cache and open tables. Default: all databases share half of the memory of the process. */
  memoryBudget?: number | undefined

  /** Joins earlier openers of the database in this process. Without it, they are an error. */
  multithreading?: boolean | undefined

  /** Opens for reads only. Nothing in the directory changes. */
  readOnly?: boolean | undefined

  /** Reads beside a writer in another process. */
  follow?: boolean | undefined

  /** Maximum age in milliseconds of the state that a follower shows. Default: 10. */
  followEvery?: number | undefined

  /** Set to false to answer every promise by a worker thread. Default: true. */
  mainThread?: boolean | undefined
}

/** Counters by name. */
export interface Stats {
  last_sequence: number
  immutable_memtables: number
  memory_bytes: number
  files: number
  file_bytes: number
  [counter: string]: number
}

export interface ReadOptions {
  /** Set to false to add no blocks to the cache. */
  fillCache?: boolean | undefined
}

export interface WriteOptions {
  /** Resolves only when the write is durable. */
  sync?: boolean | undefined
}

export interface GetOptions<K, V> extends AbstractGetOptions<K, V>, ReadOptions {}
export interface GetManyOptions<K, V> extends AbstractGetManyOptions<K, V>, ReadOptions {}
export interface HasOptions<K> extends AbstractHasOptions<K>, ReadOptions {}
export interface HasManyOptions<K> extends AbstractHasManyOptions<K>, ReadOptions {}
export interface PutOptions<K, V> extends AbstractPutOptions<K, V>, WriteOptions {}
export interface DelOptions<K> extends AbstractDelOptions<K>, WriteOptions {}
export interface BatchOptions<K, V> extends AbstractBatchOptions<K, V>, WriteOptions {}
export interface ChainedBatchWriteOptions extends AbstractChainedBatchWriteOptions, WriteOptions {}

export class ChainedBatch<TDatabase, KDefault, VDefault> extends AbstractChainedBatch<TDatabase, KDefault, VDefault> {
  write (): Promise<void>
  write (options: ChainedBatchWriteOptions): Promise<void>
}

export interface AdditionalIteratorOptions extends ReadOptions {
  /** A fetch ends after the entry with which it exceeds this number of bytes. Default: 65,536. */
  highWaterMarkBytes?: number | undefined
}

export interface StartEndOptions<K> {
  keyEncoding?: string | Transcoder.PartialEncoder<K> | undefined
}

export type BatchOperation<TDatabase, K, V> = AbstractBatchOperation<TDatabase, K, V>
export type Iterator<TDatabase, K, V> = AbstractIterator<TDatabase, K, V>
export type KeyIterator<TDatabase, K> = AbstractKeyIterator<TDatabase, K>
export type ValueIterator<TDatabase, K, V> = AbstractValueIterator<TDatabase, K, V>
export type IteratorOptions<K, V> = AbstractIteratorOptions<K, V> & AdditionalIteratorOptions
export type KeyIteratorOptions<K> = AbstractKeyIteratorOptions<K> & AdditionalIteratorOptions
export type ValueIteratorOptions<K, V> = AbstractValueIteratorOptions<K, V> & AdditionalIteratorOptions
export type Snapshot = AbstractSnapshot
