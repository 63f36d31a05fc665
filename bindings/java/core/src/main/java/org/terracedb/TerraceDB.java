package org.terracedb;

import java.io.File;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;

/**
 * Open database. All threads may use it, also while one of them closes it: later calls throw a
 * {@link TerraceException} of the kind {@link ErrorKind#CLOSED}.
 */
public final class TerraceDB implements DB {
    private static final int VERIFY_CHECKSUMS = 1;
    private static final int SKIP_CACHE = 2;
    private static final ReadOptions READ = new ReadOptions();
    private static final WriteOptions WRITE = new WriteOptions();

    private final DatabaseHandle handle;
    private final Cleaner.Cleanable cleanable;

    TerraceDB(DatabaseHandle handle) {
        this.handle = handle;
        this.cleanable = Cleaning.register(this, handle);
    }

    // Reads.

    @Override
    public byte[] get(byte[] key) {
        return get(key, READ);
    }

    @Override
    public byte[] get(byte[] key, ReadOptions options) {
        Arguments.notNull(key, "key");
        return read(
                options,
                (db, snapshot) -> Native.get(db, key, key.length, snapshot, flags(options)));
    }

    /** Returns the value of the remaining bytes of {@code key}, or null. */
    public byte[] get(ByteBuffer key) {
        return get(Arguments.bytes(key, "key"), READ);
    }

    /** Returns the values of many keys at one moment, in their order. A missing key has null. */
    public byte[][] getMany(Collection<byte[]> keys) {
        return getMany(keys, READ);
    }

    /** Same as {@link #getMany(Collection)}, with options. */
    public byte[][] getMany(Collection<byte[]> keys, ReadOptions options) {
        byte[][] array = Arguments.notNull(keys, "keys").toArray(new byte[0][]);
        for (byte[] key : array) {
            Arguments.notNull(key, "key");
        }
        return read(options, (db, snapshot) -> Native.getMany(db, array, snapshot, flags(options)));
    }

    @Override
    public TerraceIterator iterator() {
        return iterator(READ);
    }

    /** Bounds are those of {@link TerraceReadOptions}. */
    @Override
    public TerraceIterator iterator(ReadOptions options) {
        TerraceReadOptions bounds =
                options instanceof TerraceReadOptions
                        ? (TerraceReadOptions) options
                        : new TerraceReadOptions();
        return read(
                options,
                (db, snapshot) -> {
                    long cursor =
                            Native.cursor(
                                    db,
                                    snapshot,
                                    flags(options),
                                    bounds.lowerBound(),
                                    bounds.upperBound(),
                                    bounds.prefix());
                    return newIterator(this, cursor);
                });
    }

    /** Returns an iterator over the keys with a prefix. */
    public TerraceIterator prefix(byte[] prefix) {
        return iterator(new TerraceReadOptions().prefix(Arguments.notNull(prefix, "prefix")));
    }

    /** Returns all entries in key order. The caller closes the stream. */
    public Stream<Map.Entry<byte[], byte[]>> stream() {
        return stream(READ);
    }

    /** Returns the entries that {@link #iterator(ReadOptions)} shows. The caller closes the stream. */
    public Stream<Map.Entry<byte[], byte[]>> stream(ReadOptions options) {
        TerraceIterator iterator = iterator(options);
        int properties = Spliterator.ORDERED | Spliterator.DISTINCT | Spliterator.NONNULL;
        return StreamSupport.stream(
                        Spliterators.spliteratorUnknownSize(iterator, properties), false)
                .onClose(iterator::close);
    }

    TerraceIterator newIterator(Object owner, long cursor) {
        return new TerraceIterator(owner, child(cursor, "iterator", Native::freeCursor));
    }

    @Override
    public TerraceSnapshot getSnapshot() {
        return call(
                db -> {
                    long snapshot = Native.snapshot(db);
                    return new TerraceSnapshot(this, child(snapshot, "snapshot", Native::freeSnapshot));
                });
    }

    // Writes.

    @Override
    public void put(byte[] key, byte[] value) {
        put(key, value, WRITE);
    }

    /** Sets the value of the remaining bytes of {@code key}. */
    public void put(ByteBuffer key, ByteBuffer value) {
        put(Arguments.bytes(key, "key"), Arguments.bytes(value, "value"), WRITE);
    }

    @Override
    public Snapshot put(byte[] key, byte[] value, WriteOptions options) {
        Arguments.notNull(key, "key");
        Arguments.notNull(value, "value");
        Arguments.notNull(options, "options");
        run(
                db -> Native.put(db, key, key.length, value, value.length, options.sync()));
        return snapshotAfter(options);
    }

    @Override
    public void delete(byte[] key) {
        delete(key, WRITE);
    }

    /** Deletes the remaining bytes of {@code key}. */
    public void delete(ByteBuffer key) {
        delete(Arguments.bytes(key, "key"), WRITE);
    }

    @Override
    public Snapshot delete(byte[] key, WriteOptions options) {
        Arguments.notNull(key, "key");
        Arguments.notNull(options, "options");
        run(db -> Native.delete(db, key, key.length, options.sync()));
        return snapshotAfter(options);
    }

    /**
     * Deletes all keys from {@code from} on and before {@code to}. Null means no bound. The deletion
     * is durable, but not atomic: after an error or a crash, some of the keys may remain.
     */
    public void deleteRange(byte[] from, byte[] to) {
        run(db -> Native.deleteRange(db, from, to));
    }

    @Override
    public TerraceWriteBatch createWriteBatch() {
        handle.checkOpen();
        return new TerraceWriteBatch();
    }

    @Override
    public void write(WriteBatch updates) {
        write(updates, WRITE);
    }

    @Override
    public Snapshot write(WriteBatch updates, WriteOptions options) {
        Arguments.notNull(options, "options");
        if (!(Arguments.notNull(updates, "updates") instanceof TerraceWriteBatch)) {
            throw new IllegalArgumentException(
                    "a batch of another library: " + updates.getClass().getName());
        }
        TerraceWriteBatch batch = (TerraceWriteBatch) updates;
        run(db -> Native.write(db, batch.rep(), batch.length(), options.sync()));
        return snapshotAfter(options);
    }

    private Snapshot snapshotAfter(WriteOptions options) {
        return options.snapshot() ? getSnapshot() : null;
    }

    /** Begins a transaction. */
    public TerraceTransaction begin() {
        return begin(new TransactionOptions());
    }

    /** Begins a transaction with options. */
    public TerraceTransaction begin(TransactionOptions options) {
        Arguments.notNull(options, "options");
        return call(
                db -> {
                    long transaction =
                            Native.begin(
                                    db,
                                    options.snapshotIsolation(),
                                    options.locking(),
                                    options.lockTimeout().toMillis(),
                                    options.sync());
                    NativeHandle child = child(transaction, "transaction", Native::freeTransaction);
                    return new TerraceTransaction(this, child);
                });
    }

    // Maintenance.

    @Override
    public long[] getApproximateSizes(Range... ranges) {
        byte[][] bounds = new byte[2 * Arguments.notNull(ranges, "ranges").length][];
        for (int i = 0; i < ranges.length; i++) {
            bounds[2 * i] = Arguments.notNull(ranges[i], "range").start();
            bounds[2 * i + 1] = ranges[i].limit();
        }
        return call(db -> Native.approximateSizes(db, bounds));
    }

    @Override
    public String getProperty(String name) {
        byte[] bytes = Arguments.notNull(name, "name").getBytes(StandardCharsets.UTF_8);
        return call(
                db -> {
                    byte[] value = Native.property(db, bytes);
                    return value == null ? null : new String(value, StandardCharsets.UTF_8);
                });
    }

    /** Returns counters since the open and present sizes, by their names. */
    public Map<String, Long> stats() {
        return call(
                db -> {
                    Map<String, Long> stats = new LinkedHashMap<>();
                    String lines = new String(Native.stats(db), StandardCharsets.UTF_8);
                    lines.lines()
                            .map(line -> line.split(" "))
                            .forEach(parts -> stats.put(parts[0], Long.parseUnsignedLong(parts[1])));
                    return stats;
                });
    }

    @Override
    public void suspendCompactions() {
        run(db -> Native.suspendCompactions(db));
    }

    @Override
    public void resumeCompactions() {
        run(db -> Native.resumeCompactions(db));
    }

    @Override
    public void compactRange(byte[] begin, byte[] end) {
        run(db -> Native.compactRange(db, begin, end));
    }

    /** Writes the entries in memory to a table. */
    public void flush() {
        run(db -> Native.flush(db));
    }

    /** Creates a database in the new directory {@code path} with the present content. */
    public void checkpoint(File path) {
        byte[] bytes = Arguments.path(path);
        run(db -> Native.checkpoint(db, bytes));
    }

    /** Makes every write that has returned visible in a follower. */
    public void catchUp() {
        run(db -> Native.catchUp(db));
    }

    /** Closes the database, and its iterators, snapshots and transactions. */
    @Override
    public void close() {
        try {
            handle.close();
        } finally {
            cleanable.clean();
        }
    }

    // Handles.

    private NativeHandle child(long handleOfChild, String name, LongConsumer free) {
        NativeHandle child = new NativeHandle(handleOfChild, name, free, handle.children);
        if (handle.isClosed()) {
            // The close may have missed the new child.
            child.close();
            throw handle.closedException();
        }
        return child;
    }

    static int flags(ReadOptions options) {
        return (options.verifyChecksums() ? VERIFY_CHECKSUMS : 0)
                | (options.fillCache() ? 0 : SKIP_CACHE);
    }

    /** Returns the handle of the snapshot in {@code options}, or null. */
    private NativeHandle snapshotHandle(ReadOptions options) {
        Snapshot snapshot = Arguments.notNull(options, "options").snapshot();
        if (snapshot == null) {
            return null;
        }
        if (!(snapshot instanceof TerraceSnapshot) || ((TerraceSnapshot) snapshot).db != this) {
            throw new IllegalArgumentException("a snapshot of another database");
        }
        NativeHandle snapshotHandle = ((TerraceSnapshot) snapshot).handle;
        snapshotHandle.checkOpen();
        return snapshotHandle;
    }

    /** Read of the database, or of a snapshot if its number is not 0. */
    private interface Read<T> {
        T apply(long db, long snapshot);
    }

    private <T> T read(ReadOptions options, Read<T> work) {
        NativeHandle snapshot = snapshotHandle(options);
        if (snapshot == null) {
            return call(db -> work.apply(db, 0));
        }
        return call(
                db -> {
                    long number = snapshot.acquire();
                    try {
                        return work.apply(db, number);
                    } finally {
                        snapshot.release();
                        Reference.reachabilityFence(options);
                    }
                });
    }

    private void run(LongConsumer work) {
        call(
                db -> {
                    work.accept(db);
                    return null;
                });
    }

    /** Returns the result of {@code work}, during which the native database lives. */
    private <T> T call(LongFunction<T> work) {
        long db = handle.acquire();
        try {
            return work.apply(db);
        } catch (TerraceException e) {
            // Another thread may have closed the database meanwhile.
            throw handle.isClosed() ? handle.closedException() : e;
        } finally {
            handle.release();
            Reference.reachabilityFence(this);
        }
    }
}
