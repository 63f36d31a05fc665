package org.terracedb;

import org.iq80.leveldb.DBException;

/** Error of a database, with its kind. */
public final class TerraceException extends DBException {
    private static final long serialVersionUID = 1L;

    private final ErrorKind kind;

    TerraceException(ErrorKind kind, String message) {
        super(message);
        this.kind = kind;
    }

    static TerraceException closed(String what) {
        return new TerraceException(ErrorKind.CLOSED, what + " is closed");
    }

    /** Returns the kind of the error. */
    public ErrorKind kind() {
        return kind;
    }
}
