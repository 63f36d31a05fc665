package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.open;
import static org.terracedb.Fixture.rest;
import static org.terracedb.Fixture.s;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DBComparator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.Snapshot;
import org.iq80.leveldb.WriteOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The interfaces of iq80, and the additional calls. */
class InterfaceTest {
    @TempDir Path dir;

    @Test
    void putGetDelete() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            db.put(b("a"), b("1"));
            assertNull(db.put(b(""), b(""), new WriteOptions().sync(true)));
            assertEquals("1", s(db.get(b("a"))));
            assertEquals("", s(db.get(b(""))));
            db.delete(b("a"));
            assertNull(db.get(b("a")));
        }
    }

    @Test
    void valuesOfAllSizes() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            for (int size : new int[] {0, 1, 159, 160, 161, 4096, 100_000, 20_000_000}) {
                byte[] value = new byte[size];
                new java.util.Random(size).nextBytes(value);
                db.put(value.length > 1000 ? b("k" + size) : value, value);
                byte[] key = value.length > 1000 ? b("k" + size) : value;
                assertArrayEquals(value, db.get(key));
                try (TerraceIterator iterator = db.iterator()) {
                    iterator.seek(key);
                    assertArrayEquals(value, iterator.next().getValue());
                    assertArrayEquals(value, iterator.prev().getValue());
                }
            }
        }
    }

    @Test
    void batchIsAtomicAndReusable() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"));
                TerraceWriteBatch batch = db.createWriteBatch()) {
            byte[] large = new byte[70_000];
            batch.put(b("a"), b("1")).delete(b("a")).put(b("b"), large).put(b("c"), b("3"));
            assertEquals(4, batch.count());
            db.write(batch);
            assertNull(db.get(b("a")));
            assertArrayEquals(large, db.get(b("b")));
            db.write(batch.clear().delete(b("b")));
            assertEquals("c=3", rest(db.iterator()));
        }
    }

    @Test
    void snapshotsOfReadsAndWrites() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            db.put(b("a"), b("1"));
            try (Snapshot old = db.getSnapshot();
                    Snapshot young = db.put(b("a"), b("2"), new WriteOptions().snapshot(true))) {
                db.put(b("a"), b("3"));
                assertEquals("1", s(db.get(b("a"), new ReadOptions().snapshot(old))));
                assertEquals("2", s(db.get(b("a"), new ReadOptions().snapshot(young))));
                assertEquals("a=2", rest(db.iterator(new ReadOptions().snapshot(young))));
            }
            assertEquals("3", s(db.get(b("a"))));
        }
    }

    @Test
    void boundsPrefixStream() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            for (String key : List.of("a", "b1", "b2", "c")) {
                db.put(b(key), b(key));
            }
            assertEquals("b1=b1 b2=b2", rest(db.prefix(b("b"))));
            TerraceReadOptions range = new TerraceReadOptions().lowerBound(b("b2"));
            assertEquals("b2=b2 c=c", rest(db.iterator(range)));
            assertEquals("b2=b2", rest(db.iterator(range.upperBound(b("c")))));
            try (Stream<String> keys = db.stream().map(entry -> s(entry.getKey()))) {
                assertEquals("a b1 b2 c", keys.collect(Collectors.joining(" ")));
            }
            db.deleteRange(b("b"), b("c"));
            assertEquals("a=a c=c", rest(db.iterator()));
            db.deleteRange(null, null);
            assertEquals("", rest(db.iterator()));
        }
    }

    @Test
    void byteBuffersAndManyKeys() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            ByteBuffer key = ByteBuffer.allocateDirect(8).put(b("xkeyx"));
            key.flip().position(1).limit(4);
            db.put(key, ByteBuffer.wrap(b("value")));
            assertEquals("value", s(db.get(key.asReadOnlyBuffer())));
            assertEquals(1, key.position());
            byte[][] values = db.getMany(List.of(b("no"), b("key")));
            assertNull(values[0]);
            assertEquals("value", s(values[1]));
            db.delete(key);
            assertNull(db.get(b("key")));
        }
    }

    @Test
    void transactions() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            db.put(b("a"), b("1"));
            try (TerraceTransaction first = db.begin();
                    TerraceTransaction second = db.begin()) {
                for (TerraceTransaction transaction : List.of(first, second)) {
                    assertEquals("1", s(transaction.getForUpdate(b("a"))));
                    transaction.put(b("a"), b("2"));
                    transaction.put(b("b"), b("2"));
                    assertEquals("a=2 b=2", rest(transaction.iterator()));
                }
                first.commit();
                TerraceException e = assertThrows(TerraceException.class, second::commit);
                assertEquals(ErrorKind.BUSY, e.kind());
                e = assertThrows(TerraceException.class, () -> second.get(b("a")));
                assertEquals(ErrorKind.CLOSED, e.kind());
            }
            try (TerraceTransaction rolledBack = db.begin()) {
                rolledBack.delete(b("a"));
                assertNull(rolledBack.get(b("a")));
            }
            assertEquals("a=2 b=2", rest(db.iterator()));
        }
    }

    @Test
    void lockingTransactionTimesOut() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            TransactionOptions locking =
                    new TransactionOptions().locking(true).lockTimeout(Duration.ofMillis(20));
            try (TerraceTransaction first = db.begin(locking);
                    TerraceTransaction second = db.begin(locking)) {
                first.put(b("a"), b("1"));
                TerraceException e =
                        assertThrows(TerraceException.class, () -> second.put(b("a"), b("2")));
                assertEquals(ErrorKind.BUSY, e.kind());
                first.commit();
            }
            assertEquals("a=1", rest(db.iterator()));
        }
    }

    @Test
    void maintenance() throws Exception {
        File copy = dir.resolve("copy").toFile();
        try (TerraceDB db = open(dir.resolve("db"))) {
            for (int i = 0; i < 1000; i++) {
                db.put(b("k" + i), new byte[1000]);
            }
            db.flush();
            db.compactRange(null, null);
            long[] sizes =
                    db.getApproximateSizes(
                            new Range(b("k"), b("l")), new Range(b("x"), b("y")));
            assertTrue(sizes[0] > 10_000 && sizes[1] == 0, sizes[0] + " " + sizes[1]);
            assertNotNull(db.getProperty("leveldb.stats"));
            assertNull(db.getProperty("no such property"));
            assertTrue(db.stats().get("last_sequence") >= 1000);
            db.checkpoint(copy);
        }
        VerifyReport report = TerraceFactory.factory.verify(copy, new TerraceOptions());
        assertTrue(report.isClean(), report.toString());
        assertTrue(report.toString().contains("1,000"), report.toString());
        TerraceFactory.factory.repair(copy, new TerraceOptions());
        try (TerraceDB db = open(copy.toPath())) {
            assertEquals(1000, db.stream().count());
        }
        TerraceFactory.factory.destroy(copy, new TerraceOptions());
        assertFalse(copy.exists());
    }

    @Test
    void suspendedCompactionsWait() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"))) {
            db.put(b("a"), b("1"));
            db.suspendCompactions();
            CompletableFuture<Void> compaction =
                    CompletableFuture.runAsync(() -> db.compactRange(null, null));
            assertThrows(
                    TimeoutException.class, () -> compaction.get(200, TimeUnit.MILLISECONDS));
            db.resumeCompactions();
            compaction.get(1, TimeUnit.MINUTES);
            assertEquals("a=1", rest(db.iterator()));
        }
    }

    @Test
    void followerSeesTheWriter() throws Exception {
        File directory = dir.resolve("db").toFile();
        try (TerraceDB db = open(directory.toPath());
                TerraceDB follower =
                        TerraceFactory.factory.follow(
                                directory, new TerraceOptions(), Duration.ofMillis(100))) {
            db.put(b("a"), b("1"));
            follower.catchUp();
            assertEquals("1", s(follower.get(b("a"))));
            TerraceException e =
                    assertThrows(TerraceException.class, () -> follower.put(b("b"), b("2")));
            assertEquals(ErrorKind.UNSUPPORTED, e.kind());
        }
    }

    @Test
    void openErrorsHaveKinds() throws Exception {
        File directory = dir.resolve("db").toFile();
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().createIfMissing(false));
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().codec("no such codec"));
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().blockSize(-1));
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().maxOpenFiles(-1));
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().memoryBudget(-5));
        try (TerraceDB db = open(directory.toPath())) {
            checkOpenFails(ErrorKind.LOCKED, new TerraceOptions());
            db.put(b("a"), b("1"));
        }
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().errorIfExists(true));
        try (TerraceDB db =
                TerraceFactory.factory.open(directory, new TerraceOptions().readOnly(true))) {
            assertEquals("1", s(db.get(b("a"))));
            TerraceException e =
                    assertThrows(TerraceException.class, () -> db.put(b("b"), b("2")));
            assertEquals(ErrorKind.UNSUPPORTED, e.kind());
        }
    }

    /** leveldbjni accepts these numbers; they were an exception of the kind INVALID. */
    @Test
    void negativeNumbersOfPlainOptions() throws Exception {
        Options options = new Options().maxOpenFiles(-1).blockRestartInterval(-1).cacheSize(-1);
        try (TerraceDB db = TerraceFactory.factory.open(dir.resolve("db").toFile(), options)) {
            db.put(b("a"), b("1"));
            assertEquals("1", s(db.get(b("a"))));
        }
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().cacheSize(-1));
        checkOpenFails(ErrorKind.INVALID, new TerraceOptions().blockRestartInterval(-1));
    }

    private void checkOpenFails(ErrorKind kind, Options options) {
        TerraceIOException e =
                assertThrows(
                        TerraceIOException.class,
                        () -> TerraceFactory.factory.open(dir.resolve("db").toFile(), options));
        assertEquals(kind, e.kind(), e.getMessage());
    }

    @Test
    void loggerReceivesLines() throws Exception {
        List<String> lines = new CopyOnWriteArrayList<>();
        Options options = new TerraceOptions().logger(lines::add);
        try (TerraceDB db = TerraceFactory.factory.open(dir.resolve("db").toFile(), options)) {
            db.put(b("a"), b("1"));
            db.compactRange(null, null);
        }
        assertFalse(lines.isEmpty());
    }

    @Test
    void loggerThatThrowsChangesNothing() throws Exception {
        Options options =
                new TerraceOptions()
                        .logger(
                                line -> {
                                    throw new IllegalStateException("from the logger");
                                });
        try (TerraceDB db = TerraceFactory.factory.open(dir.resolve("db").toFile(), options)) {
            db.put(b("a"), b("1"));
            db.compactRange(null, null);
            assertEquals("1", s(db.get(b("a"))));
        }
    }

    @Test
    void comparatorOrdersKeysInAllThreads() throws Exception {
        Options options = new TerraceOptions().comparator(new Reverse()).writeBufferSize(1 << 16);
        File directory = dir.resolve("db").toFile();
        try (TerraceDB db = TerraceFactory.factory.open(directory, options)) {
            for (int i = 0; i < 5000; i++) {
                db.put(b("k" + i % 500), new byte[100]);
            }
            db.compactRange(null, null);
            db.put(b("z"), b("1"));
            assertEquals("z", s(db.iterator().next().getKey()));
            assertEquals(501, db.stream().count());
        }
        TerraceIOException e =
                assertThrows(TerraceIOException.class, () -> open(directory.toPath()));
        assertEquals(ErrorKind.INVALID, e.kind());
    }

    static final class Reverse implements DBComparator {
        @Override
        public String name() {
            return "reverse";
        }

        @Override
        public int compare(byte[] a, byte[] b) {
            return Fixture.BYTEWISE.compare(b, a);
        }

        @Override
        public byte[] findShortestSeparator(byte[] start, byte[] limit) {
            return start;
        }

        @Override
        public byte[] findShortSuccessor(byte[] key) {
            return key;
        }
    }

    /** The engine skips a damaged block. An iterator lost the entries of the chunk before it. */
    @Test
    void entriesBeforeDamage() throws Exception {
        TerraceOptions options = new TerraceOptions();
        options.compressionType(CompressionType.NONE);
        File directory = dir.resolve("db").toFile();
        try (TerraceDB db = TerraceFactory.factory.open(directory, options)) {
            for (int i = 0; i < 1000; i++) {
                db.put(b(String.format("%04d", i)), b(String.format("value %0100d", i)));
            }
            db.compactRange(null, null);
        }
        File[] tables = directory.listFiles((parent, name) -> name.endsWith(".ldb"));
        assertEquals(1, tables.length);
        byte[] content = Files.readAllBytes(tables[0].toPath());
        String text = new String(content, StandardCharsets.ISO_8859_1);
        content[text.indexOf(String.format("value %0100d", 500))] ^= 1;
        Files.write(tables[0].toPath(), content);
        try (TerraceDB db = TerraceFactory.factory.open(directory, options)) {
            TerraceIterator forward = db.iterator();
            int next = 0;
            try {
                for (; forward.hasNext(); next++) {
                    assertEquals(String.format("%04d", next), s(forward.next().getKey()));
                }
                fail("no exception");
            } catch (TerraceException e) {
                assertTrue(next > 450 && next <= 500, next + " entries");
            }
            TerraceIterator backward = db.iterator();
            backward.seekToEnd();
            int previous = 1000;
            try {
                while (backward.hasPrev()) {
                    previous--;
                    assertEquals(String.format("%04d", previous), s(backward.prev().getKey()));
                }
                fail("no exception");
            } catch (TerraceException e) {
                assertTrue(previous > 500 && previous < 550, "back to " + previous);
            }
        }
    }
}
