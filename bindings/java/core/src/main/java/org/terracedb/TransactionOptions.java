package org.terracedb;

import java.time.Duration;

/** Options of a transaction. */
public final class TransactionOptions {
    private boolean snapshotIsolation;
    private boolean locking;
    private boolean sync;
    private Duration lockTimeout = Duration.ofSeconds(1);

    /** Checks only written keys at the commit. By default, transactions are serializable. */
    public TransactionOptions snapshotIsolation(boolean value) {
        this.snapshotIsolation = value;
        return this;
    }

    /** Locks each key at its first read or write. By default, a conflict fails the commit. */
    public TransactionOptions locking(boolean value) {
        this.locking = value;
        return this;
    }

    /** Returns from the commit only after the writes are durable. */
    public TransactionOptions sync(boolean value) {
        this.sync = value;
        return this;
    }

    /** Sets the maximum wait for a lock. Default: one second. */
    public TransactionOptions lockTimeout(Duration timeout) {
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("lockTimeout is negative: " + timeout);
        }
        this.lockTimeout = timeout;
        return this;
    }

    boolean snapshotIsolation() {
        return snapshotIsolation;
    }

    boolean locking() {
        return locking;
    }

    boolean sync() {
        return sync;
    }

    Duration lockTimeout() {
        return lockTimeout;
    }
}
