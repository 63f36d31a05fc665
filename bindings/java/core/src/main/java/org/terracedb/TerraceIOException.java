package org.terracedb;

import java.io.IOException;

/** Error of a {@link TerraceFactory}, with its kind. */
public final class TerraceIOException extends IOException {
    private static final long serialVersionUID = 1L;

    private final ErrorKind kind;

    TerraceIOException(TerraceException cause) {
        super(cause.getMessage(), cause);
        this.kind = cause.kind();
    }

    /** Returns the kind of the error. */
    public ErrorKind kind() {
        return kind;
    }
}
