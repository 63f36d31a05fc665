package org.terracedb;

import java.util.Arrays;
import java.util.Map;

/** Key and value. Two entries are equal if their bytes are. */
final class Entry implements Map.Entry<byte[], byte[]> {
    private final byte[] key;
    private final byte[] value;

    Entry(byte[] key, byte[] value) {
        this.key = key;
        this.value = value;
    }

    @Override
    public byte[] getKey() {
        return key;
    }

    @Override
    public byte[] getValue() {
        return value;
    }

    @Override
    public byte[] setValue(byte[] newValue) {
        throw new UnsupportedOperationException("an entry of an iterator cannot change");
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Entry)) {
            return false;
        }
        Entry that = (Entry) other;
        return Arrays.equals(key, that.key) && Arrays.equals(value, that.value);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(key) ^ Arrays.hashCode(value);
    }
}
