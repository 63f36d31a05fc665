package org.terracedb;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;

/**
 * Reads and writes that take effect together, or not at all. Its end is {@link #commit}, or {@link
 * #close}, which rolls back. One thread at a time may use a transaction.
 */
public final class TerraceTransaction implements AutoCloseable {
    private static final int PLAIN = 0;
    private static final int FOR_UPDATE = 1;

    private final TerraceDB db;
    private final NativeHandle handle;
    private final Cleaner.Cleanable cleanable;

    TerraceTransaction(TerraceDB db, NativeHandle handle) {
        this.db = db;
        this.handle = handle;
        this.cleanable = Cleaning.register(this, handle);
    }

    /** Returns the value that the transaction sees, or null. */
    public byte[] get(byte[] key) {
        return get(key, PLAIN);
    }

    /**
     * Same as {@link #get(byte[])}. At each isolation level, the commit fails if another writer
     * changes the key.
     */
    public byte[] getForUpdate(byte[] key) {
        return get(key, FOR_UPDATE);
    }

    private byte[] get(byte[] key, int mode) {
        Arguments.notNull(key, "key");
        long transaction = handle.acquire();
        try {
            return Native.transactionGet(transaction, key, mode);
        } finally {
            release();
        }
    }

    /** Sets the value of a key. */
    public void put(byte[] key, byte[] value) {
        Arguments.notNull(key, "key");
        Arguments.notNull(value, "value");
        long transaction = handle.acquire();
        try {
            Native.transactionPut(transaction, key, value);
        } finally {
            release();
        }
    }

    /** Deletes a key. */
    public void delete(byte[] key) {
        Arguments.notNull(key, "key");
        long transaction = handle.acquire();
        try {
            Native.transactionDelete(transaction, key);
        } finally {
            release();
        }
    }

    /** Returns an iterator over the entries that the transaction sees. */
    public TerraceIterator iterator() {
        return iterator(new TerraceReadOptions());
    }

    /** Returns an iterator over the entries that the transaction sees, within bounds. */
    public TerraceIterator iterator(TerraceReadOptions options) {
        Arguments.notNull(options, "options");
        long transaction = handle.acquire();
        try {
            long cursor =
                    Native.transactionCursor(
                            transaction,
                            TerraceDB.flags(options),
                            options.lowerBound(),
                            options.upperBound(),
                            options.prefix());
            return db.newIterator(this, cursor);
        } finally {
            release();
        }
    }

    /**
     * Writes the changes, and ends the transaction. An exception of the kind {@link
     * ErrorKind#BUSY} means that another writer interfered and that nothing was written.
     */
    public void commit() {
        long transaction = handle.acquire();
        try {
            Native.commit(transaction);
        } finally {
            release();
            close();
        }
    }

    /** Ends the transaction without its changes, unless {@link #commit} has ended it. */
    @Override
    public void close() {
        cleanable.clean();
    }

    private void release() {
        handle.release();
        Reference.reachabilityFence(this);
    }
}
