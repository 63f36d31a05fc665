package org.terracedb;

/** Kind of an error. The order is that of the numbers in the native library. */
public enum ErrorKind {
    /** A file is missing. */
    NOT_FOUND,
    /** Stored bytes are damaged or contradict each other. */
    CORRUPTION,
    /** The files, the options or the handle do not allow this operation. */
    UNSUPPORTED,
    /** An argument or an option is wrong. */
    INVALID,
    /** The operating system returned an error. */
    IO,
    /** Another writer or transaction interfered. The caller tries again. */
    BUSY,
    /** Another handle or process has the database open. */
    LOCKED,
    /** An error in Terrace itself. */
    INTERNAL,
    /** The database, iterator, snapshot or transaction was closed. */
    CLOSED
}
