package org.terracedb;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.Options;

/**
 * Opens, checks, repairs and removes databases. An error is a {@link TerraceIOException}, which is
 * an {@link java.io.IOException}.
 */
public final class TerraceFactory implements DBFactory {
    /** The factory. It has no state. */
    public static final TerraceFactory factory = new TerraceFactory();

    private static final int READ_WRITE = 0;
    private static final int READ_ONLY = 1;
    private static final int FOLLOW = 2;

    /** Creates a factory, which is equal to {@link #factory}. */
    public TerraceFactory() {}

    @Override
    public TerraceDB open(File path, Options options) throws TerraceIOException {
        Arguments.notNull(options, "options");
        boolean readOnly =
                options instanceof TerraceOptions && ((TerraceOptions) options).readOnly();
        return open(path, options, readOnly ? READ_ONLY : READ_WRITE, 0);
    }

    /**
     * Opens a database beside the process that writes it. The reader sees new writes after at most
     * {@code every}, and at once after {@link TerraceDB#catchUp}.
     */
    public TerraceDB follow(File path, Options options, Duration every) throws TerraceIOException {
        if (Arguments.notNull(every, "every").isNegative()) {
            throw new IllegalArgumentException("every is negative: " + every);
        }
        return open(path, Arguments.notNull(options, "options"), FOLLOW, every.toMillis());
    }

    private TerraceDB open(File path, Options options, int mode, long followMillis)
            throws TerraceIOException {
        LogReceiver logger = options.logger() == null ? null : new LogReceiver(options.logger());
        byte[] lines = Arguments.options(options);
        return checked(
                () ->
                        new TerraceDB(
                                new DatabaseHandle(
                                        Native.open(
                                                Arguments.path(path),
                                                mode,
                                                lines,
                                                options.comparator(),
                                                Arguments.comparatorName(options),
                                                logger,
                                                followMillis))));
    }

    @Override
    public void destroy(File path, Options options) throws TerraceIOException {
        byte[] lines = Arguments.options(Arguments.notNull(options, "options"));
        checked(
                () -> {
                    Native.destroy(Arguments.path(path), lines);
                    return null;
                });
    }

    @Override
    public void repair(File path, Options options) throws TerraceIOException {
        repairWithReport(path, options);
    }

    /** Repairs a closed database. Returns the report of all changes as text. */
    public String repairWithReport(File path, Options options) throws TerraceIOException {
        byte[] lines = Arguments.options(Arguments.notNull(options, "options"));
        byte[] report =
                checked(
                        () ->
                                Native.repair(
                                        Arguments.path(path),
                                        lines,
                                        options.comparator(),
                                        Arguments.comparatorName(options)));
        return new String(report, StandardCharsets.UTF_8);
    }

    /** Reads every byte of a closed database and checks it. Changes nothing. */
    public VerifyReport verify(File path, Options options) throws TerraceIOException {
        byte[] lines = Arguments.options(Arguments.notNull(options, "options"));
        byte[][] report =
                checked(
                        () ->
                                Native.verify(
                                        Arguments.path(path),
                                        lines,
                                        options.comparator(),
                                        Arguments.comparatorName(options)));
        List<String> texts = new ArrayList<>();
        for (byte[] text : report) {
            texts.add(new String(text, StandardCharsets.UTF_8));
        }
        return new VerifyReport(texts.get(0), texts.subList(1, texts.size()));
    }

    private static <T> T checked(Supplier<T> work) throws TerraceIOException {
        try {
            return work.get();
        } catch (TerraceException e) {
            throw new TerraceIOException(e);
        }
    }

    @Override
    public String toString() {
        return "terrace";
    }
}
