package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.open;
import static org.terracedb.Fixture.s;

import java.nio.file.Path;
import java.util.NoSuchElementException;
import java.util.Random;
import java.util.TreeMap;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Random moves of an iterator, beside a position in a sorted list. */
class IteratorModelTest {
    @TempDir Path dir;

    @Test
    void randomMoves() throws Exception {
        for (int entries : new int[] {0, 1, 2, 30, 2000}) {
            try (TerraceDB db = open(dir.resolve("db" + entries))) {
                Random random = new Random(entries);
                TreeMap<String, String> model = new TreeMap<>();
                for (int i = 0; i < entries; i++) {
                    String key = String.format("%05d", random.nextInt(10_000));
                    String value = "v".repeat(random.nextInt(i % 50 == 0 ? 9000 : 40));
                    model.put(key, value);
                    db.put(b(key), b(value));
                }
                List<String> keys = new ArrayList<>(model.keySet());
                try (TerraceIterator iterator = db.iterator()) {
                    int position = 0;
                    for (int step = 0; step < 20_000; step++) {
                        position = step(random, iterator, keys, model, position);
                    }
                }
            }
        }
    }

    /** Makes one call or several equal ones. Returns the new position in {@code keys}. */
    private static int step(
            Random random,
            TerraceIterator iterator,
            List<String> keys,
            TreeMap<String, String> model,
            int position) {
        switch (random.nextInt(12)) {
            case 0:
                iterator.seekToFirst();
                return 0;
            case 1:
                iterator.seekToLast();
                return Math.max(keys.size() - 1, 0);
            case 2:
                iterator.seekToEnd();
                return keys.size();
            case 3:
                String target = String.format("%05d", random.nextInt(10_500));
                iterator.seek(b(target));
                return model.headMap(target).size();
            case 4:
                assertEquals(position < keys.size(), iterator.hasNext());
                return position;
            case 5:
                assertEquals(position > 0, iterator.hasPrev());
                return position;
            case 6:
            case 7:
                int limit = random.nextInt(400);
                for (int i = 0; i < limit; i++, position++) {
                    if (position == keys.size()) {
                        assertThrows(NoSuchElementException.class, iterator::next);
                        return position;
                    }
                    String key = keys.get(position);
                    assertEquals(key, s(iterator.peekNext().getKey()));
                    assertEquals(key + "=" + model.get(key), s(iterator.next()));
                }
                return position;
            case 8:
            case 9:
                int count = random.nextInt(400);
                for (int i = 0; i < count; i++, position--) {
                    if (position == 0) {
                        assertThrows(NoSuchElementException.class, iterator::prev);
                        return position;
                    }
                    String key = keys.get(position - 1);
                    assertEquals(key, s(iterator.peekPrev().getKey()));
                    assertEquals(key + "=" + model.get(key), s(iterator.prev()));
                }
                return position;
            default:
                if (position < keys.size()) {
                    assertEquals(keys.get(position), s(iterator.next().getKey()));
                    assertEquals(keys.get(position), s(iterator.prev().getKey()));
                }
                return position;
        }
    }
}
