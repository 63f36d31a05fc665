package org.fusesource.leveldbjni;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.fusesource.leveldbjni.internal.JniDB;
import org.fusesource.leveldbjni.internal.NativeDB;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.Options;
import org.terracedb.TerraceFactory;
import org.terracedb.TerraceIOException;

/** {@link TerraceFactory} under the name and with the exceptions of leveldbjni. */
public class JniDBFactory implements DBFactory {
    /** The factory. It has no state. */
    public static final JniDBFactory factory = new JniDBFactory();

    /** Version of leveldbjni whose classes this library replaces. */
    public static final String VERSION = "1.8";

    private interface Work<T> {
        T run() throws TerraceIOException;
    }

    /** Creates a factory, which is equal to {@link #factory}. */
    public JniDBFactory() {}

    /** Returns the UTF-8 form of a text, or null. */
    public static byte[] bytes(String value) {
        return value == null ? null : value.getBytes(StandardCharsets.UTF_8);
    }

    /** Returns the text of UTF-8 bytes, or null. */
    public static String asString(byte[] value) {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    /** Does nothing: Terrace needs no pool of native memory. */
    public static void pushMemoryPool(int size) {}

    /** Does nothing: Terrace needs no pool of native memory. */
    public static void popMemoryPool() {}

    @Override
    public DB open(File path, Options options) throws IOException {
        return translated(() -> new JniDB(TerraceFactory.factory.open(path, options)));
    }

    @Override
    public void destroy(File path, Options options) throws IOException {
        translated(
                () -> {
                    TerraceFactory.factory.destroy(path, options);
                    return null;
                });
    }

    @Override
    public void repair(File path, Options options) throws IOException {
        translated(() -> TerraceFactory.factory.repairWithReport(path, options));
    }

    private static <T> T translated(Work<T> work) throws NativeDB.DBException {
        try {
            return work.run();
        } catch (TerraceIOException e) {
            throw new NativeDB.DBException(e);
        }
    }

    @Override
    public String toString() {
        return "leveldbjni version " + VERSION + ", by Terrace";
    }
}
