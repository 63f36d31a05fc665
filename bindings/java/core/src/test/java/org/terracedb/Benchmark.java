package org.terracedb;

import static org.terracedb.Fixture.b;

import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.WriteBatch;

/**
 * Program that prints nanoseconds of each operation with Terrace and with leveldbjni 1.8, as a table
 * in Markdown: medians of five runs, in turns. Keys have 16 bytes, values 100.
 */
final class Benchmark {
    private static final int ENTRIES = 150_000;
    private static final int RUNS = 5;
    private static final String[] ROWS = {"put", "batch of 100", "get", "scan"};
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final OperatingSystemMXBean PROCESS =
            ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    private static final DBFactory[] FACTORIES = {JniDBFactory.factory, TerraceFactory.factory};

    /** Clocks in nanoseconds. */
    private enum Clock {
        /** Processor time of the calling thread. */
        THREAD {
            @Override
            long now() {
                return THREADS.getCurrentThreadCpuTime();
            }
        },
        /** Processor time of all threads, with those of the engine and of the virtual machine. */
        PROCESS {
            @Override
            long now() {
                return Benchmark.PROCESS.getProcessCpuTime();
            }
        },
        WALL {
            @Override
            long now() {
                return System.nanoTime();
            }
        };

        abstract long now();
    }

    private interface Work {
        void run() throws Exception;
    }

    private final DBFactory factory;
    /** Nanoseconds of an operation by row, clock and run. */
    private final long[][][] nanos = new long[ROWS.length][Clock.values().length][RUNS];

    private Benchmark(DBFactory factory) {
        this.factory = factory;
    }

    public static void main(String[] arguments) throws Exception {
        Benchmark[] libraries =
                Arrays.stream(FACTORIES).map(Benchmark::new).toArray(Benchmark[]::new);
        // The first run only compiles.
        for (int run = -1; run < RUNS; run++) {
            for (Benchmark library : libraries) {
                library.run(run);
            }
        }
        for (Clock clock : Clock.values()) {
            System.out.printf("%n| %s | leveldbjni | Terrace | ratio |%n|---|---:|---:|---:|%n", clock);
            for (int row = 0; row < ROWS.length; row++) {
                long other = libraries[0].median(row, clock);
                long own = libraries[1].median(row, clock);
                double ratio = (double) other / own;
                System.out.printf("| %s | %d | %d | %.1f |%n", ROWS[row], other, own, ratio);
            }
        }
    }

    private long median(int row, Clock clock) {
        return Arrays.stream(nanos[row][clock.ordinal()]).sorted().skip(RUNS / 2).findFirst().orElseThrow();
    }

    private void run(int run) throws Exception {
        Random random = new Random(run);
        byte[][] keys = new byte[ENTRIES][];
        for (int i = 0; i < ENTRIES; i++) {
            keys[i] = b(String.format("%016d", random.nextInt(Integer.MAX_VALUE)));
        }
        byte[] value = new byte[100];
        random.nextBytes(value);
        File directory = Files.createTempDirectory(Path.of("."), "bench").toFile();
        try (DB db = factory.open(directory, new Options())) {
            measure(0, run, () -> put(db, keys, value));
            measure(2, run, () -> get(db, keys));
            measure(3, run, () -> scan(db));
        }
        factory.destroy(directory, new Options());
        try (DB db = factory.open(directory, new Options())) {
            measure(1, run, () -> writeBatches(db, keys, value));
        }
        factory.destroy(directory, new Options());
        Files.deleteIfExists(directory.toPath());
    }

    private void measure(int row, int run, Work work) throws Exception {
        long[] start = Arrays.stream(Clock.values()).mapToLong(Clock::now).toArray();
        work.run();
        for (Clock clock : Clock.values()) {
            if (run >= 0) {
                nanos[row][clock.ordinal()][run] = (clock.now() - start[clock.ordinal()]) / ENTRIES;
            }
        }
    }

    private static void put(DB db, byte[][] keys, byte[] value) {
        for (byte[] key : keys) {
            db.put(key, value);
        }
    }

    private static void get(DB db, byte[][] keys) {
        for (byte[] key : keys) {
            if (db.get(key) == null) {
                throw new IllegalStateException("a key is missing");
            }
        }
    }

    private static void writeBatches(DB db, byte[][] keys, byte[] value) throws Exception {
        for (int i = 0; i < ENTRIES; i += 100) {
            try (WriteBatch batch = db.createWriteBatch()) {
                for (int j = i; j < i + 100; j++) {
                    batch.put(keys[j], value);
                }
                db.write(batch);
            }
        }
    }

    private static void scan(DB db) throws Exception {
        int count = 0;
        long bytes = 0;
        try (DBIterator iterator = db.iterator()) {
            for (iterator.seekToFirst(); iterator.hasNext(); count++) {
                Map.Entry<byte[], byte[]> entry = iterator.next();
                bytes += entry.getKey().length + entry.getValue().length;
            }
        }
        // Two random keys may be equal.
        if (bytes != 116L * count || count < ENTRIES - 100) {
            throw new IllegalStateException("a wrong entry");
        }
    }
}
