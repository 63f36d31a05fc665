package org.terracedb;

import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DBComparator;
import org.iq80.leveldb.Logger;
import org.iq80.leveldb.Options;

/** Options of a database, with those that LevelDB lacks. */
public final class TerraceOptions extends Options {
    private long memoryBudget;
    private boolean readOnly;
    private String codec;
    private int bloomBitsPerKey = -1;
    private boolean oldTableNames;

    /** Returns the memory budget in bytes, or 0 for the default. */
    public long memoryBudget() {
        return memoryBudget;
    }

    /**
     * Sets the total memory of memtables, block cache and open tables, in bytes. With 0, the
     * default, all such databases share half of the memory of the process.
     */
    public TerraceOptions memoryBudget(long bytes) {
        this.memoryBudget = bytes;
        return this;
    }

    /** Returns whether the database is opened for reads only. */
    public boolean readOnly() {
        return readOnly;
    }

    /** Opens the database for reads only, without a change of any file. */
    public TerraceOptions readOnly(boolean readOnly) {
        this.readOnly = readOnly;
        return this;
    }

    /** Returns the name of the codec of new tables, or null for {@link #compressionType}. */
    public String codec() {
        return codec;
    }

    /**
     * Sets the codec of new tables by its name, such as {@code zstd}. LevelDB cannot read the
     * tables of a codec other than {@code none} and {@code snappy}.
     */
    public TerraceOptions codec(String name) {
        this.codec = name;
        return this;
    }

    /** Returns the number of filter bits for each key, or -1 for the default. */
    public int bloomBitsPerKey() {
        return bloomBitsPerKey;
    }

    /** Sets the number of filter bits for each key. 0 means no filter. */
    public TerraceOptions bloomBitsPerKey(int bits) {
        this.bloomBitsPerKey = bits;
        return this;
    }

    /** Returns whether new tables have the name that leveldbjni 1.8 reads. */
    public boolean oldTableNames() {
        return oldTableNames;
    }

    /**
     * Writes new tables as {@code .sst} instead of {@code .ldb}. leveldbjni 1.8 and iq80's LevelDB
     * read only the old name, later LevelDBs both. Other {@link Options} always mean the old name.
     */
    public TerraceOptions oldTableNames(boolean value) {
        this.oldTableNames = value;
        return this;
    }

    @Override
    public TerraceOptions createIfMissing(boolean value) {
        super.createIfMissing(value);
        return this;
    }

    @Override
    public TerraceOptions errorIfExists(boolean value) {
        super.errorIfExists(value);
        return this;
    }

    @Override
    public TerraceOptions writeBufferSize(int bytes) {
        super.writeBufferSize(bytes);
        return this;
    }

    @Override
    public TerraceOptions maxOpenFiles(int count) {
        super.maxOpenFiles(count);
        return this;
    }

    @Override
    public TerraceOptions blockRestartInterval(int keys) {
        super.blockRestartInterval(keys);
        return this;
    }

    @Override
    public TerraceOptions blockSize(int bytes) {
        super.blockSize(bytes);
        return this;
    }

    @Override
    public TerraceOptions compressionType(CompressionType type) {
        super.compressionType(type);
        return this;
    }

    @Override
    public TerraceOptions verifyChecksums(boolean value) {
        super.verifyChecksums(value);
        return this;
    }

    @Override
    public TerraceOptions cacheSize(long bytes) {
        super.cacheSize(bytes);
        return this;
    }

    @Override
    public TerraceOptions comparator(DBComparator comparator) {
        super.comparator(comparator);
        return this;
    }

    @Override
    public TerraceOptions logger(Logger logger) {
        super.logger(logger);
        return this;
    }

    @Override
    public TerraceOptions paranoidChecks(boolean value) {
        super.paranoidChecks(value);
        return this;
    }
}
