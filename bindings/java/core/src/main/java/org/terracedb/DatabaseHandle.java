package org.terracedb;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Handle of a database. Its close ends all iterators, snapshots and transactions. */
final class DatabaseHandle extends NativeHandle {
    /** Open databases of the process, which a shutdown hook closes. */
    private static final Set<NativeHandle> OPEN = ConcurrentHashMap.newKeySet();

    static {
        if (!"false".equals(System.getProperty("org.terracedb.closeAtExit"))) {
            Runtime.getRuntime()
                    .addShutdownHook(new Thread(DatabaseHandle::closeAll, "terrace-close"));
        }
    }

    /** Handles of the iterators, snapshots and transactions of this database. */
    final Set<NativeHandle> children = ConcurrentHashMap.newKeySet();

    DatabaseHandle(long handle) {
        super(handle, "database", Native::freeDatabase, OPEN);
    }

    @Override
    void beforeFree(long openHandle) {
        try {
            Native.shutdown(openHandle);
        } finally {
            children.forEach(NativeHandle::close);
        }
    }

    @Override
    public void run() {
        try {
            close();
        } catch (TerraceException e) {
            // The info log of the database has the error. No program called this method.
        }
    }

    private static void closeAll() {
        // A copy, because each close changes the set.
        Set<NativeHandle> open = Set.copyOf(OPEN);
        open.forEach(NativeHandle::run);
    }
}
