package org.terracedb;

import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;

/** Options of a read, with bounds for iterators. */
public final class TerraceReadOptions extends ReadOptions {
    private byte[] lowerBound;
    private byte[] upperBound;
    private byte[] prefix;

    /** Returns the first key that an iterator may show, or null. */
    public byte[] lowerBound() {
        return lowerBound;
    }

    /** Sets the first key that an iterator may show. */
    public TerraceReadOptions lowerBound(byte[] key) {
        this.lowerBound = key;
        return this;
    }

    /** Returns the first key after those that an iterator may show, or null. */
    public byte[] upperBound() {
        return upperBound;
    }

    /** Sets the first key after those that an iterator may show. */
    public TerraceReadOptions upperBound(byte[] key) {
        this.upperBound = key;
        return this;
    }

    /** Returns the prefix of all keys that an iterator shows, or null. */
    public byte[] prefix() {
        return prefix;
    }

    /** Sets the prefix of all keys that an iterator shows. */
    public TerraceReadOptions prefix(byte[] bytes) {
        this.prefix = bytes;
        return this;
    }

    @Override
    public TerraceReadOptions snapshot(Snapshot snapshot) {
        super.snapshot(snapshot);
        return this;
    }

    @Override
    public TerraceReadOptions fillCache(boolean value) {
        super.fillCache(value);
        return this;
    }

    @Override
    public TerraceReadOptions verifyChecksums(boolean value) {
        super.verifyChecksums(value);
        return this;
    }
}
