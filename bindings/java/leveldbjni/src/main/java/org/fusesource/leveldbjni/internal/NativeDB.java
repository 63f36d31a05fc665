package org.fusesource.leveldbjni.internal;

import java.io.IOException;
import org.terracedb.ErrorKind;
import org.terracedb.TerraceIOException;

/** Place of the exception of leveldbjni, which programs such as Hadoop and Spark catch. */
public final class NativeDB {
    private NativeDB() {}

    /** Error of {@link org.fusesource.leveldbjni.JniDBFactory}. */
    public static class DBException extends IOException {
        private static final long serialVersionUID = 1L;

        private final boolean notFound;

        /** Creates an exception from one of Terrace. */
        public DBException(TerraceIOException cause) {
            super(cause.getMessage(), cause);
            this.notFound = cause.kind() == ErrorKind.NOT_FOUND;
        }

        /** Returns true if a file is missing. */
        public boolean isNotFound() {
            return notFound;
        }
    }
}
