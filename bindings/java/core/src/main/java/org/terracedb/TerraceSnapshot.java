package org.terracedb;

import java.lang.ref.Cleaner;
import org.iq80.leveldb.Snapshot;

/** State of a database at one moment. */
public final class TerraceSnapshot implements Snapshot {
    /** The database, which stays open while this object is reachable. */
    final TerraceDB db;
    final NativeHandle handle;
    private final Cleaner.Cleanable cleanable;

    TerraceSnapshot(TerraceDB db, NativeHandle handle) {
        this.db = db;
        this.handle = handle;
        this.cleanable = Cleaning.register(this, handle);
    }

    @Override
    public void close() {
        cleanable.clean();
    }
}
