package org.terracedb;

import java.nio.charset.StandardCharsets;
import org.iq80.leveldb.DBComparator;

/**
 * Functions of the native library. A {@code long} is a handle, or 0. A {@code keyLength} is the length
 * of the array before it, which a native function could only ask for.
 */
final class Native {
    static {
        NativeLibrary.load();
    }

    private Native() {}

    /** Throws an error of the native library, which calls this method. */
    private static void fail(int kind, byte[] message) {
        throw new TerraceException(
                ErrorKind.values()[kind], new String(message, StandardCharsets.UTF_8));
    }

    static native long open(
            byte[] path,
            int mode,
            byte[] options,
            DBComparator comparator,
            byte[] comparatorName,
            LogReceiver logger,
            long followMillis);

    static native void shutdown(long db);

    static native void freeDatabase(long db);

    static native byte[] get(long db, byte[] key, int keyLength, long snapshot, int flags);

    static native byte[][] getMany(long db, byte[][] keys, long snapshot, int flags);

    static native void put(
            long db, byte[] key, int keyLength, byte[] value, int valueLength, boolean sync);

    static native void delete(long db, byte[] key, int keyLength, boolean sync);

    static native void write(long db, byte[] rep, int length, boolean sync);

    static native void deleteRange(long db, byte[] from, byte[] to);

    static native long snapshot(long db);

    static native void freeSnapshot(long snapshot);

    static native long cursor(
            long db, long snapshot, int flags, byte[] lower, byte[] upper, byte[] prefix);

    static native int fill(
            long cursor, int move, byte[] key, boolean forward, int count, byte[] chunk);

    static native void freeCursor(long cursor);

    static native byte[] property(long db, byte[] name);

    static native byte[] stats(long db);

    static native long[] approximateSizes(long db, byte[][] bounds);

    static native void compactRange(long db, byte[] begin, byte[] end);

    static native void suspendCompactions(long db);

    static native void resumeCompactions(long db);

    static native void flush(long db);

    static native long checkpoint(long db, byte[] path);

    static native long catchUp(long db);

    static native byte[][] verify(
            byte[] path, byte[] options, DBComparator comparator, byte[] comparatorName);

    static native byte[] repair(
            byte[] path, byte[] options, DBComparator comparator, byte[] comparatorName);

    static native void destroy(byte[] path, byte[] options);

    static native long begin(
            long db,
            boolean snapshotIsolation,
            boolean locking,
            long lockTimeoutMillis,
            boolean sync);

    static native byte[] transactionGet(long transaction, byte[] key, int mode);

    static native void transactionPut(long transaction, byte[] key, byte[] value);

    static native void transactionDelete(long transaction, byte[] key);

    static native long transactionCursor(
            long transaction, int flags, byte[] lower, byte[] upper, byte[] prefix);

    static native void commit(long transaction);

    static native void freeTransaction(long transaction);
}
