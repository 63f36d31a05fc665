package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.rest;
import static org.terracedb.Fixture.s;

import java.io.File;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.WriteBatch;
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
