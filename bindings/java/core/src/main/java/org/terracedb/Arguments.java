package org.terracedb;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.Options;

/** Checks of arguments, and their form for the native library. */
final class Arguments {
    private static final Options DEFAULTS = new Options();

    private Arguments() {}

    /** Returns {@code value}, or throws the exception that leveldbjni throws for null. */
    static <T> T notNull(T value, String name) {
        if (value == null) {
            throw new IllegalArgumentException("The " + name + " argument cannot be null");
        }
        return value;
    }

    /** Returns a copy of the remaining bytes of {@code buffer}, which does not move. */
    static byte[] bytes(ByteBuffer buffer, String name) {
        ByteBuffer source = notNull(buffer, name).duplicate();
        byte[] bytes = new byte[source.remaining()];
        source.get(bytes);
        return bytes;
    }

    static byte[] path(File path) {
        return notNull(path, "path").getPath().getBytes(StandardCharsets.UTF_8);
    }

    /** Returns the name of the comparator, or null. */
    static byte[] comparatorName(Options options) {
        if (options.comparator() == null) {
            return null;
        }
        return notNull(options.comparator().name(), "name of the comparator")
                .getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Returns lines {@code name=value}. A value that is LevelDB's default stays unset: Terrace then
     * sizes its write buffer by itself and keeps the codec of the existing tables.
     */
    static byte[] options(Options options) {
        StringBuilder lines = new StringBuilder();
        line(lines, "create_if_missing", options.createIfMissing());
        line(lines, "error_if_exists", options.errorIfExists());
        line(lines, "paranoid_checks", options.paranoidChecks());
        line(lines, "max_open_files", count(options, options.maxOpenFiles()));
        line(lines, "block_size", options.blockSize());
        line(lines, "block_restart_interval", count(options, options.blockRestartInterval()));
        if (options.writeBufferSize() != DEFAULTS.writeBufferSize()) {
            line(lines, "write_buffer_size", options.writeBufferSize());
        }
        if (options.cacheSize() > 0 || (options.cacheSize() < 0 && options instanceof TerraceOptions)) {
            line(lines, "cache_size", options.cacheSize());
        }
        if (options.compressionType() == CompressionType.NONE) {
            line(lines, "compression", "none");
        }
        if (options instanceof TerraceOptions) {
            additionalOptions(lines, (TerraceOptions) options);
        } else {
            // The program can return to leveldbjni or to iq80's LevelDB.
            line(lines, "old_table_names", true);
        }
        return lines.toString().getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Returns a number of things. leveldbjni moves a negative one to LevelDB's lower bound, and
     * ignores a negative cache. The native library refuses those of {@link TerraceOptions}.
     */
    private static int count(Options options, int number) {
        return options instanceof TerraceOptions ? number : Math.max(number, 0);
    }

    private static void additionalOptions(StringBuilder lines, TerraceOptions options) {
        if (options.memoryBudget() != 0) {
            line(lines, "memory_budget", options.memoryBudget());
        }
        line(lines, "old_table_names", options.oldTableNames());
        if (options.codec() != null) {
            line(lines, "compression", options.codec());
        }
        if (options.bloomBitsPerKey() != -1) {
            line(lines, "bloom_bits_per_key", options.bloomBitsPerKey());
        }
    }

    private static void line(StringBuilder lines, String name, Object value) {
        String text = value.toString();
        if (text.indexOf('\n') >= 0) {
            throw new IllegalArgumentException("option " + name + " contains a line break");
        }
        lines.append(name).append('=').append(text).append('\n');
    }
}
