package org.terracedb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Map;
import java.util.NoSuchElementException;
import org.iq80.leveldb.DBIterator;

/**
 * Iterator over the entries of a database in key order, at the state of one moment. It stands
 * between two entries, and a new one before the first.
 *
 * <p>A native call copies a chunk of entries, in one direction, to an array:
 *
 * <pre>
 *   forward chunk    entry 0 | entry 1 | entry 2        backward chunk   entry 2 | entry 1 | entry 0
 *                            ^ position 1                                        ^ position 2
 *   next() returns entry 1, prev() entry 0              next() returns entry 1, prev() entry 2
 * </pre>
 *
 * <p>One thread at a time may use an iterator.
 */
public final class TerraceIterator implements DBIterator {
    // Moves, with the numbers of the native library.
    private static final int STAY = 0;
    private static final int FIRST = 1;
    private static final int LAST = 2;
    private static final int SEEK = 3;
    private static final int AFTER = 4;
    private static final int BEFORE = 5;

    private static final int MAX_ENTRIES = 256;
    private static final int SMALL_CHUNK = 4 << 10;
    private static final int LARGE_CHUNK = 64 << 10;
    /** Number of entries whose chunks deserve a large array. */
    private static final int MANY_ENTRIES = 64;
    /** Number of bytes of a number in a chunk. */
    private static final int NUMBER = 4;
    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    /** Whether there is an entry before the first one of the chunk, in its direction. */
    private enum Behind {
        YES,
        NO,
        UNKNOWN
    }

    private final Object owner;
    private final NativeHandle handle;
    private final Cleaner.Cleanable cleanable;

    /** Entries and their table, in the layout that the native library describes in `cursor.rs`. */
    private byte[] chunk;
    /** Index of the table in the chunk. */
    private int table;
    /** Number of entries of the chunk. */
    private int count;
    /** Number of entries of the chunk before the position, in the direction of the chunk. */
    private int position;
    private boolean forward = true;
    /** True if no entry follows the chunk in its direction. */
    private boolean exhausted;
    private Behind behind = Behind.UNKNOWN;
    /** True if the native iterator stands after the last entry of the chunk. */
    private boolean inPlace;
    /** True before the first move. */
    private boolean isNew = true;
    private int chunkSize = 1;

    /** {@code owner} stays reachable, so that the database of the iterator stays open. */
    TerraceIterator(Object owner, NativeHandle handle) {
        this.owner = owner;
        this.handle = handle;
        this.cleanable = Cleaning.register(this, handle);
    }

    @Override
    public void seek(byte[] key) {
        restart(SEEK, Arguments.notNull(key, "key"), true, Behind.UNKNOWN);
    }

    @Override
    public void seekToFirst() {
        restart(FIRST, null, true, Behind.NO);
    }

    /** Moves before the last entry, as leveldbjni does: {@link #next} returns it. */
    @Override
    public void seekToLast() {
        restart(LAST, null, true, Behind.UNKNOWN);
    }

    /** Moves after the last entry: {@link #prev} returns it. */
    public void seekToEnd() {
        restart(LAST, null, false, Behind.NO);
    }

    private void restart(int move, byte[] key, boolean newForward, Behind newBehind) {
        handle.checkOpen();
        isNew = false;
        count = 0;
        position = 0;
        chunkSize = 1;
        forward = newForward;
        behind = newBehind;
        inPlace = true;
        exhausted = !fill(move, key, newForward);
    }

    @Override
    public boolean hasNext() {
        return forward && position < count ? isOpen() : prepare(true);
    }

    @Override
    public Map.Entry<byte[], byte[]> peekNext() {
        return require(true, 0);
    }

    @Override
    public Map.Entry<byte[], byte[]> next() {
        if (forward && position < count && isOpen()) {
            return entry(position++);
        }
        return require(true, 1);
    }

    @Override
    public boolean hasPrev() {
        if (forward && !isNew && position == 0 && count > 0 && behind != Behind.UNKNOWN) {
            handle.checkOpen();
            return behind == Behind.YES;
        }
        return prepare(false);
    }

    @Override
    public Map.Entry<byte[], byte[]> peekPrev() {
        return require(false, 0);
    }

    @Override
    public Map.Entry<byte[], byte[]> prev() {
        return require(false, 1);
    }

    @Override
    public void remove() {
        throw new UnsupportedOperationException("delete the key from the database");
    }

    @Override
    public void close() {
        cleanable.clean();
        chunk = null;
    }

    /** Returns true, or throws the exception of a closed iterator. */
    private boolean isOpen() {
        handle.checkOpen();
        return true;
    }

    /** Returns the neighbour in the given direction, and moves {@code steps} entries. */
    private Entry require(boolean towardsNext, int steps) {
        if (!prepare(towardsNext)) {
            throw new NoSuchElementException();
        }
        if (towardsNext == forward) {
            Entry entry = entry(position);
            position += steps;
            return entry;
        }
        Entry entry = entry(position - 1);
        position -= steps;
        return entry;
    }

    /** Fetches entries if the chunk has no neighbour in the given direction. */
    private boolean prepare(boolean towardsNext) {
        handle.checkOpen();
        if (isNew) {
            seekToFirst();
        }
        if (towardsNext == forward) {
            return position < count || continueChunk();
        }
        return position > 0 || turn(towardsNext);
    }

    /** Replaces the chunk by the next one in the same direction. */
    private boolean continueChunk() {
        if (exhausted) {
            return false;
        }
        boolean found =
                inPlace
                        ? fill(STAY, null, forward)
                        : fill(forward ? AFTER : BEFORE, key(count - 1), forward);
        inPlace = true;
        if (found) {
            position = 0;
            behind = Behind.YES;
        }
        exhausted = !found;
        return found;
    }

    /** Replaces the chunk by one in the other direction. The position is its first entry. */
    private boolean turn(boolean towardsNext) {
        if (behind == Behind.NO && count > 0) {
            return false;
        }
        boolean isEmpty = count == 0;
        chunkSize = 1;
        inPlace = false;
        boolean found =
                isEmpty
                        ? fill(towardsNext ? FIRST : LAST, null, towardsNext)
                        : fill(towardsNext ? AFTER : BEFORE, key(0), towardsNext);
        if (!found) {
            behind = Behind.NO;
            return false;
        }
        behind = isEmpty ? Behind.NO : Behind.YES;
        forward = towardsNext;
        position = 0;
        exhausted = false;
        inPlace = true;
        return true;
    }

    /**
     * Moves the native iterator and fetches a chunk. Returns false, and keeps the present chunk, if
     * there is no entry.
     */
    private boolean fill(int move, byte[] key, boolean towardsNext) {
        byte[] target = chunk;
        if (target == null || chunkSize >= MANY_ENTRIES && target.length < LARGE_CHUNK) {
            target = new byte[chunkSize >= MANY_ENTRIES ? LARGE_CHUNK : SMALL_CHUNK];
        }
        int used = nativeFill(move, key, towardsNext, target);
        if (used < 0) {
            target = new byte[-used];
            used = nativeFill(STAY, null, towardsNext, target);
        }
        if (used > 0) {
            chunk = target;
            readTable(used);
            chunkSize = Math.min(4 * chunkSize, MAX_ENTRIES);
        }
        return used > 0;
    }

    private int nativeFill(int move, byte[] key, boolean towardsNext, byte[] target) {
        long cursor = handle.acquire();
        try {
            return Native.fill(cursor, move, key, towardsNext, chunkSize, target);
        } catch (TerraceException e) {
            // The call may have overwritten the chunk.
            count = 0;
            position = 0;
            exhausted = true;
            throw handle.isClosed() ? handle.closedException() : e;
        } finally {
            handle.release();
            Reference.reachabilityFence(this);
        }
    }

    private void readTable(int used) {
        count = number(used - NUMBER);
        table = used - NUMBER * (count + 2);
    }

    private int number(int index) {
        return (int) INT.get(chunk, index);
    }

    /** Returns the start of an entry, or the end of the last one. */
    private int start(int index) {
        return number(table + NUMBER * index);
    }

    private byte[] key(int index) {
        int start = start(index);
        int keyStart = start + NUMBER;
        return Arrays.copyOfRange(chunk, keyStart, keyStart + number(start));
    }

    private Entry entry(int index) {
        int start = start(index);
        int keyStart = start + NUMBER;
        int valueStart = keyStart + number(start);
        return new Entry(
                Arrays.copyOfRange(chunk, keyStart, valueStart),
                Arrays.copyOfRange(chunk, valueStart, start(index + 1)));
    }
}
