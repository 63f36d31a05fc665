package org.terracedb.suites;

import org.fusesource.leveldbjni.JniDBFactory;

/** Library that a program uses: the factory has the same name in both, and another place. */
final class Library {
    private Library() {}

    /** Checks that this virtual machine has Terrace, or leveldbjni. */
    static void check(boolean isTerrace) {
        String place =
                JniDBFactory.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        if (place.contains("terrace-leveldbjni") != isTerrace) {
            throw new IllegalStateException("the wrong library: " + place);
        }
    }
}
