package org.terracedb;

import java.lang.ref.Cleaner;

/** Cleaner of forgotten objects. */
final class Cleaning {
    private static final Cleaner CLEANER = Cleaner.create();

    private Cleaning() {}

    /** Closes {@code handle} after the garbage collector has found {@code owner} unreachable. */
    static Cleaner.Cleanable register(Object owner, NativeHandle handle) {
        return CLEANER.register(owner, handle);
    }
}
