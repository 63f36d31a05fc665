package org.terracedb;

import static org.terracedb.Fixture.b;

import java.io.File;
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
 * Program that prints nanoseconds of each operation with Terrace and with leveldbjni 1.8: medians of
 * five runs, in turns. Keys have 16 bytes, values 100.
 */
final class Benchmark {
    private static final int ENTRIES = 150_000;
    private static final int RUNS = 5;
    private static final String[] ROWS = {"put", "batch of 100", "get", "scan"};

    private Benchmark() {}

    public static void main(String[] arguments) throws Exception {
        DBFactory[] factories = {JniDBFactory.factory, TerraceFactory.factory};
        long[][][] times = new long[2][ROWS.length][RUNS];
        for (int run = -1; run < RUNS; run++) {
            for (int f = 0; f < 2; f++) {
                long[] result = run(factories[f], new Random(run));
                for (int row = 0; row < ROWS.length && run >= 0; row++) {
                    times[f][row][run] = result[row];
                }
            }
        }
        System.out.println("                leveldbjni   terrace   ratio");
        for (int row = 0; row < ROWS.length; row++) {
            Arrays.sort(times[0][row]);
            Arrays.sort(times[1][row]);
            long other = times[0][row][RUNS / 2];
            long ours = times[1][row][RUNS / 2];
            System.out.printf(
                    "%-14s %11d %9d %7.1f%n", ROWS[row], other, ours, (double) other / ours);
        }
    }

    /** Returns the nanoseconds of one operation of each row. */
    private static long[] run(DBFactory factory, Random random) throws Exception {
        byte[][] keys = new byte[ENTRIES][];
        for (int i = 0; i < ENTRIES; i++) {
            keys[i] = b(String.format("%016d", random.nextInt(Integer.MAX_VALUE)));
        }
        byte[] value = new byte[100];
        random.nextBytes(value);
        long[] nanos = new long[ROWS.length];
        File directory = Files.createTempDirectory(Path.of("."), "bench").toFile();
        try (DB db = factory.open(directory, new Options())) {
            long start = System.nanoTime();
            for (byte[] key : keys) {
                db.put(key, value);
            }
            nanos[0] = System.nanoTime() - start;
            start = System.nanoTime();
            for (byte[] key : keys) {
                if (db.get(key) == null) {
                    throw new IllegalStateException("a key is missing");
                }
            }
            nanos[2] = System.nanoTime() - start;
            nanos[3] = scan(db);
        }
        factory.destroy(directory, new Options());
        try (DB db = factory.open(directory, new Options())) {
            long start = System.nanoTime();
            for (int i = 0; i < ENTRIES; i += 100) {
                try (WriteBatch batch = db.createWriteBatch()) {
                    for (int j = i; j < i + 100; j++) {
                        batch.put(keys[j], value);
                    }
                    db.write(batch);
                }
            }
            nanos[1] = System.nanoTime() - start;
        }
        factory.destroy(directory, new Options());
        Files.deleteIfExists(directory.toPath());
        return Arrays.stream(nanos).map(total -> total / ENTRIES).toArray();
    }

    private static long scan(DB db) throws Exception {
        long start = System.nanoTime();
        int count = 0;
        long bytes = 0;
        try (DBIterator iterator = db.iterator()) {
            for (iterator.seekToFirst(); iterator.hasNext(); count++) {
                Map.Entry<byte[], byte[]> entry = iterator.next();
                bytes += entry.getKey().length + entry.getValue().length;
            }
        }
        long nanos = System.nanoTime() - start;
        if (bytes != 116L * count) {
            throw new IllegalStateException("a wrong entry");
        }
        return nanos * ENTRIES / count;
    }
}
