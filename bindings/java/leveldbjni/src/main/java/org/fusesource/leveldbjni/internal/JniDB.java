package org.fusesource.leveldbjni.internal;

import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;
import org.terracedb.TerraceDB;

/** {@link TerraceDB} under the class name of leveldbjni, which some programs cast to. */
public class JniDB implements DB {
    private final TerraceDB db;

    /** Creates the name of a database. */
    public JniDB(TerraceDB db) {
        this.db = db;
    }

    /** Returns the database with the calls that leveldbjni lacks. */
    public TerraceDB terrace() {
        return db;
    }

    @Override
    public byte[] get(byte[] key) {
        return db.get(key);
    }

    @Override
    public byte[] get(byte[] key, ReadOptions options) {
        return db.get(key, options);
    }

    @Override
    public DBIterator iterator() {
        return db.iterator();
    }

    @Override
    public DBIterator iterator(ReadOptions options) {
        return db.iterator(options);
    }

    @Override
    public void put(byte[] key, byte[] value) {
        db.put(key, value);
    }

    @Override
    public void delete(byte[] key) {
        db.delete(key);
    }

    @Override
    public void write(WriteBatch updates) {
        db.write(updates);
    }

    @Override
    public WriteBatch createWriteBatch() {
        return db.createWriteBatch();
    }

    @Override
    public Snapshot put(byte[] key, byte[] value, WriteOptions options) {
        return db.put(key, value, options);
    }

    @Override
    public Snapshot delete(byte[] key, WriteOptions options) {
        return db.delete(key, options);
    }

    @Override
    public Snapshot write(WriteBatch updates, WriteOptions options) {
        return db.write(updates, options);
    }

    @Override
    public Snapshot getSnapshot() {
        return db.getSnapshot();
    }

    @Override
    public long[] getApproximateSizes(Range... ranges) {
        return db.getApproximateSizes(ranges);
    }

    @Override
    public String getProperty(String name) {
        return db.getProperty(name);
    }

    @Override
    public void suspendCompactions() {
        db.suspendCompactions();
    }

    @Override
    public void resumeCompactions() {
        db.resumeCompactions();
    }

    @Override
    public void compactRange(byte[] begin, byte[] end) {
        db.compactRange(begin, end);
    }

    @Override
    public void close() {
        db.close();
    }
}
