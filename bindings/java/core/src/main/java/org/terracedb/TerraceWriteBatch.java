package org.terracedb;

import java.util.Arrays;
import org.iq80.leveldb.WriteBatch;

/**
 * Puts and deletes that one call writes atomically. The batch is a byte array in LevelDB's format:
 *
 * <pre>
 *   0                8           12
 *   +----------------+-----------+---------------------------------------------------+
 *   | sequence: zero | count LE  | 1, key, value (a put) or 0, key (a delete) ...    |
 *   +----------------+-----------+---------------------------------------------------+
 *   a key or value is its length as a varint, and its bytes
 * </pre>
 */
public final class TerraceWriteBatch implements WriteBatch {
    private static final int HEADER = 12;
    private static final int COUNT = 8;
    private static final int MAX_VARINT = 5;
    /** Maximum length of an array in common virtual machines. */
    private static final long MAX_LENGTH = Integer.MAX_VALUE - 8;

    private byte[] rep = new byte[256];
    private int length = HEADER;
    private int count;

    TerraceWriteBatch() {}

    @Override
    public TerraceWriteBatch put(byte[] key, byte[] value) {
        Arguments.notNull(key, "key");
        Arguments.notNull(value, "value");
        reserve(1L + 2 * MAX_VARINT + key.length + value.length);
        rep[length++] = 1;
        append(key);
        append(value);
        countOperation();
        return this;
    }

    @Override
    public TerraceWriteBatch delete(byte[] key) {
        Arguments.notNull(key, "key");
        reserve(1L + MAX_VARINT + key.length);
        rep[length++] = 0;
        append(key);
        countOperation();
        return this;
    }

    /** Removes all operations, so that the batch can be used again. */
    public TerraceWriteBatch clear() {
        length = HEADER;
        count = 0;
        Arrays.fill(rep, 0, HEADER, (byte) 0);
        return this;
    }

    /** Returns the number of operations. */
    public int count() {
        return count;
    }

    /** Does nothing: a batch has no native memory. */
    @Override
    public void close() {}

    byte[] rep() {
        return rep;
    }

    int length() {
        return length;
    }

    private void reserve(long bytes) {
        long needed = length + bytes;
        if (needed > rep.length) {
            if (needed > MAX_LENGTH) {
                throw new IllegalArgumentException("a batch of more than 2 GiB");
            }
            rep = Arrays.copyOf(rep, (int) Math.min(Math.max(needed, 2L * rep.length), MAX_LENGTH));
        }
    }

    private void append(byte[] bytes) {
        int rest = bytes.length;
        while (rest >= 0x80) {
            rep[length++] = (byte) (rest | 0x80);
            rest >>>= 7;
        }
        rep[length++] = (byte) rest;
        System.arraycopy(bytes, 0, rep, length, bytes.length);
        length += bytes.length;
    }

    private void countOperation() {
        count++;
        for (int i = 0; i < 4; i++) {
            rep[COUNT + i] = (byte) (count >>> 8 * i);
        }
    }
}
