package org.terracedb;

import java.nio.charset.StandardCharsets;
import org.iq80.leveldb.Logger;

/** Receiver of the lines of the info log, called by the native library. */
final class LogReceiver {
    private final Logger logger;

    LogReceiver(Logger logger) {
        this.logger = logger;
    }

    void log(byte[] line) {
        logger.log(new String(line, StandardCharsets.UTF_8));
    }
}
