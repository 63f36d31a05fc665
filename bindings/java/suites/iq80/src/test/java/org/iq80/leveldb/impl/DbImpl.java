package org.iq80.leveldb.impl;

import java.io.File;
import java.io.IOException;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;
import org.iq80.leveldb.WriteOptions;
import org.iq80.leveldb.util.Slice;
import org.terracedb.TerraceDB;
import org.terracedb.TerraceFactory;

/** Terrace in the place of iq80's database, with the methods that iq80's tests call. */
public class DbImpl {
    private final TerraceDB db;

    public DbImpl(Options options, File directory) throws IOException {
        db = TerraceFactory.factory.open(directory, options);
    }

    public byte[] get(byte[] key) {
        return db.get(key);
    }

    public byte[] get(byte[] key, ReadOptions options) {
        return db.get(key, options);
    }

    public void put(byte[] key, byte[] value) {
        db.put(key, value);
    }

    public Snapshot put(byte[] key, byte[] value, WriteOptions options) {
        return db.put(key, value, options);
    }

    public void delete(byte[] key) {
        db.delete(key);
    }

    public Snapshot getSnapshot() {
        return db.getSnapshot();
    }

    public SeekingIteratorAdapter iterator() {
        return new SeekingIteratorAdapter(db.iterator());
    }

    public long getApproximateSizes(Range range) {
        return db.getApproximateSizes(range)[0];
    }

    public void flushMemTable() {
        db.flush();
    }

    /** Compacts all levels: the interface has no compaction of one level. */
    public void compactRange(int level, Slice start, Slice limit) {
        db.compactRange(start.getBytes(), limit.getBytes());
    }

    public int numberOfFilesInLevel(int level) {
        return Integer.parseInt(db.getProperty("leveldb.num-files-at-level" + level));
    }

    public void close() {
        db.close();
    }
}
