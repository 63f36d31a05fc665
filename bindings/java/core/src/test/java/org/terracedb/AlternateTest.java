package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.rest;
import static org.terracedb.Fixture.s;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBException;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** leveldbjni 1.8, with LevelDB inside, and Terrace use one directory in random turns. */
class AlternateTest {
    @TempDir Path dir;

    @Test
    void randomTurns() throws Exception {
        for (int seed = 0; seed < 2; seed++) {
            File directory = dir.resolve("db" + seed).toFile();
            Random random = new Random(seed);
            TreeMap<String, String> model = new TreeMap<>();
            for (int turn = 0; turn < 20; turn++) {
                boolean isTerrace = random.nextBoolean();
                DBFactory factory = isTerrace ? TerraceFactory.factory : JniDBFactory.factory;
                Options options = new Options().writeBufferSize(1 << 17);
                try (DB db = factory.open(directory, options)) {
                    String context = "seed " + seed + ", turn " + turn + ", terrace " + isTerrace;
                    check(db, model, context);
                    change(db, model, random);
                    check(db, model, context);
                }
            }
            assertTrue(TerraceFactory.factory.verify(directory, new Options()).isClean());
        }
    }

    @Test
    void sameErrors() throws Exception {
        Map<String, String> expected = errors(JniDBFactory.factory, dir.resolve("stock"));
        assertEquals(8, expected.size(), expected.toString());
        // leveldbjni ends a scan at damaged data, as if no entry followed.
        assertEquals("none", expected.put("scan", "DBException"));
        assertEquals(expected, errors(TerraceFactory.factory, dir.resolve("terrace")));
    }

    /** Returns the exception of each situation. */
    private static Map<String, String> errors(DBFactory factory, Path path) throws Exception {
        File directory = path.toFile();
        Map<String, String> found = new TreeMap<>();
        Options existing = new Options().createIfMissing(false);
        found.put("missing", error(() -> factory.open(directory, existing)));
        Options options = new Options();
        DB db = factory.open(directory, options);
        found.put("locked", error(() -> factory.open(directory, options)));
        found.put(
                "destroy",
                error(
                        () -> {
                            factory.destroy(directory, options);
                            return null;
                        }));
        found.put("null key", error(() -> db.get(null)));
        found.put("null value", error(() -> db.put(b("a"), null, new WriteOptions())));
        for (int i = 0; i < 1000; i++) {
            db.put(b(String.format("%04d", i)), new byte[100]);
        }
        db.compactRange(null, null);
        db.close();
        Options mustBeNew = new Options().errorIfExists(true);
        found.put("existing", error(() -> factory.open(directory, mustBeNew)));
        try (var tables = Files.newDirectoryStream(path, "*.sst")) {
            for (Path table : tables) {
                byte[] content = Files.readAllBytes(table);
                Arrays.fill(content, 0, 1000, (byte) 0xff);
                Files.write(table, content);
            }
        }
        try (DB damaged = factory.open(directory, options)) {
            ReadOptions checked = new ReadOptions().verifyChecksums(true);
            found.put("damaged", error(() -> damaged.get(b("0000"), checked)));
            found.put("scan", error(() -> rest(damaged.iterator(checked))));
        }
        return found;
    }

    private static String error(Callable<?> call) {
        try {
            call.call();
            return "none";
        } catch (IOException e) {
            return "IOException";
        } catch (DBException e) {
            return "DBException";
        } catch (Exception e) {
            return e.getClass().getName();
        }
    }

    private static void change(DB db, TreeMap<String, String> model, Random random)
            throws Exception {
        for (int i = random.nextInt(2000); i > 0; i--) {
            String key = String.format("%04d", random.nextInt(3000));
            String value = "v".repeat(random.nextInt(300)) + i;
            switch (random.nextInt(4)) {
                case 0:
                    db.delete(b(key));
                    model.remove(key);
                    break;
                case 1:
                    try (WriteBatch batch = db.createWriteBatch()) {
                        batch.put(b(key), b(value)).delete(b(key + "x")).put(b(key + "y"), b("y"));
                        db.write(batch);
                    }
                    model.put(key, value);
                    model.put(key + "y", "y");
                    break;
                default:
                    db.put(b(key), b(value));
                    model.put(key, value);
            }
        }
        if (random.nextInt(3) == 0) {
            db.compactRange(null, null);
        }
    }

    private static void check(DB db, TreeMap<String, String> model, String context)
            throws Exception {
        String expected =
                model.entrySet().stream()
                        .map(entry -> entry.getKey() + "=" + entry.getValue())
                        .collect(Collectors.joining(" "));
        try (DBIterator iterator = db.iterator()) {
            iterator.seekToFirst();
            assertEquals(expected, rest(iterator), context);
            iterator.seekToLast();
            if (!model.isEmpty()) {
                assertEquals(model.lastKey(), s(iterator.peekNext().getKey()), context);
            }
        }
        int step = Math.max(1, model.size() / 100);
        int index = 0;
        for (Map.Entry<String, String> entry : model.entrySet()) {
            if (index++ % step == 0) {
                assertEquals(entry.getValue(), s(db.get(b(entry.getKey()))), context);
            }
        }
    }
}
