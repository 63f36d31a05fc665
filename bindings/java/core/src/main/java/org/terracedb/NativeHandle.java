package org.terracedb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Set;
import java.util.function.LongConsumer;

/**
 * Handle of a native object, with the number of its users.
 *
 * <pre>
 *   users   0 .. n          open: n calls use the handle
 *           CLOSED + n      closed: no further call may begin, n calls still run
 *           FREED           the last user has freed the native object
 * </pre>
 *
 * <p>No call waits for another one. A closed handle is freed by whoever releases it last. This
 * class does not know the object that Java's users hold, so the garbage collector can find that
 * object unreachable, and a cleaner then closes the handle.
 */
class NativeHandle implements Runnable {
    private static final int CLOSED = Integer.MIN_VALUE;
    private static final int FREED = CLOSED | 1 << 30;
    private static final VarHandle USERS;

    static {
        try {
            USERS = MethodHandles.lookup().findVarHandle(NativeHandle.class, "users", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final long handle;
    private final String name;
    private final LongConsumer free;

    /** Handles of the same database, which contain this one until it is closed. */
    private final Set<NativeHandle> siblings;

    @SuppressWarnings("unused") // through USERS
    private volatile int users;

    NativeHandle(long handle, String name, LongConsumer free, Set<NativeHandle> siblings) {
        this.handle = handle;
        this.name = name;
        this.free = free;
        this.siblings = siblings;
        siblings.add(this);
    }

    final boolean isClosed() {
        return users < 0;
    }

    final TerraceException closedException() {
        return TerraceException.closed(name);
    }

    final void checkOpen() {
        if (isClosed()) {
            throw closedException();
        }
    }

    /** Returns the number of the native object, which lives until {@link #release}. */
    final long acquire() {
        if ((int) USERS.getAndAdd(this, 1) < 0) {
            release();
            throw closedException();
        }
        return handle;
    }

    final void release() {
        if ((int) USERS.getAndAdd(this, -1) == CLOSED + 1
                && USERS.compareAndSet(this, CLOSED, FREED)) {
            free.accept(handle);
        }
    }

    /** Closes the handle. Returns false if it was closed before. */
    final boolean close() {
        int now;
        do {
            now = users;
            if (now < 0) {
                return false;
            }
        } while (!USERS.compareAndSet(this, now, (now | CLOSED) + 1));
        try {
            siblings.remove(this);
            beforeFree(handle);
        } finally {
            release();
        }
        return true;
    }

    /** Work of the caller that closes the handle, while the native object still lives. */
    void beforeFree(long openHandle) {}

    /** Closes the handle of an object that the garbage collector has found unreachable. */
    @Override
    public void run() {
        close();
    }
}
