package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.open;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.iq80.leveldb.Range;
import org.iq80.leveldb.ReadOptions;
import org.iq80.leveldb.WriteBatch;
import org.iq80.leveldb.WriteOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Calls after a close, calls beside a close, and null arguments. */
class ClosedTest {
    @TempDir Path dir;

    /** leveldbjni closes such a database, too. The close threw an exception. */
    @Test
    void closeAfterTheDirectoryWasRemoved() throws Exception {
        TerraceDB db = open(dir.resolve("db"));
        db.put(b("a"), b("1"));
        for (java.io.File file : dir.resolve("db").toFile().listFiles()) {
            assertTrue(file.delete());
        }
        assertTrue(dir.resolve("db").toFile().delete());
        db.close();
        assertThrows(TerraceException.class, () -> db.get(b("a")));
    }

    /** Calls every public method of a class, with arguments of the right types or with nulls. */
    private static int callAll(Object object, boolean nulls, Class<? extends RuntimeException> expected)
            throws Exception {
        int calls = 0;
        for (Method method : object.getClass().getDeclaredMethods()) {
            boolean takesObject =
                    List.of(method.getParameterTypes()).stream().anyMatch(t -> !t.isPrimitive());
            boolean isMeant =
                    Modifier.isPublic(method.getModifiers())
                            && !method.isBridge()
                            && !List.of("close", "remove").contains(method.getName())
                            && (!nulls || takesObject)
                            && !(nulls && List.of("compactRange", "deleteRange").contains(method.getName()));
            if (isMeant) {
                Object[] arguments = new Object[method.getParameterCount()];
                for (int i = 0; i < arguments.length && !nulls; i++) {
                    arguments[i] = argument(method.getParameterTypes()[i]);
                }
                InvocationTargetException e =
                        assertThrows(
                                InvocationTargetException.class,
                                () -> method.invoke(object, arguments),
                                method.toString());
                assertTrue(expected.isInstance(e.getCause()), method + ": " + e.getCause());
                if (!nulls) {
                    assertEquals(ErrorKind.CLOSED, ((TerraceException) e.getCause()).kind());
                }
                calls++;
            }
        }
        return calls;
    }

    private static Object argument(Class<?> type) {
        List<Object> values =
                List.of(
                        new byte[] {1},
                        ByteBuffer.allocate(1),
                        new TerraceReadOptions(),
                        new WriteOptions(),
                        new TransactionOptions(),
                        new TerraceWriteBatch(),
                        List.of(new byte[] {1}),
                        new Range[] {new Range(b("a"), b("b"))},
                        "leveldb.stats",
                        new java.io.File("missing"));
        return values.stream().filter(type::isInstance).findFirst().orElseThrow();
    }

    @Test
    void everyCallAfterClose() throws Exception {
        TerraceDB db = open(dir.resolve("db"));
        db.put(b("a"), b("1"));
        db.put(b("b"), b("2"));
        TerraceIterator iterator = db.iterator();
        iterator.next();
        TerraceTransaction transaction = db.begin();
        TerraceSnapshot snapshot = db.getSnapshot();
        ReadOptions atSnapshot = new ReadOptions().snapshot(snapshot);
        db.close();
        db.close();
        assertTrue(callAll(db, false, TerraceException.class) > 25);
        assertEquals(10, callAll(iterator, false, TerraceException.class));
        assertTrue(callAll(transaction, false, TerraceException.class) > 5);
        assertThrows(TerraceException.class, () -> db.get(b("a"), atSnapshot));
        assertDoesNotThrow(iterator::close);
        assertDoesNotThrow(snapshot::close);
        assertDoesNotThrow(transaction::close);
        open(dir.resolve("db")).close();
    }

    @Test
    void nullArguments() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"));
                TerraceTransaction transaction = db.begin();
                TerraceIterator iterator = db.iterator()) {
            assertTrue(callAll(db, true, IllegalArgumentException.class) > 15);
            assertTrue(callAll(transaction, true, IllegalArgumentException.class) >= 4);
            assertEquals(1, callAll(iterator, true, IllegalArgumentException.class));
            assertEquals(2, callAll(db.createWriteBatch(), true, IllegalArgumentException.class));
        }
    }

    @Test
    void objectsOfOthers() throws Exception {
        try (TerraceDB db = open(dir.resolve("db"));
                TerraceDB other = open(dir.resolve("other"))) {
            ReadOptions foreign = new ReadOptions().snapshot(other.getSnapshot());
            assertThrows(IllegalArgumentException.class, () -> db.get(b("a"), foreign));
            ReadOptions unknown = new ReadOptions().snapshot(() -> {});
            assertThrows(IllegalArgumentException.class, () -> db.iterator(unknown));
            TerraceSnapshot closed = db.getSnapshot();
            closed.close();
            ReadOptions ended = new ReadOptions().snapshot(closed);
            assertThrows(TerraceException.class, () -> db.get(b("a"), ended));
            WriteBatch batch = (WriteBatch) java.lang.reflect.Proxy.newProxyInstance(
                    getClass().getClassLoader(), new Class<?>[] {WriteBatch.class}, (p, m, a) -> null);
            assertThrows(IllegalArgumentException.class, () -> db.write(batch));
        }
    }

    /** Four threads use a database of which one closes while they work, five times. */
    @Test
    void closeBesideFourThreads() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        AtomicLong calls = new AtomicLong();
        for (int round = 0; round < 5; round++) {
            TerraceDB db = open(dir.resolve("db"));
            List<Future<Void>> work = new ArrayList<>();
            for (int thread = 0; thread < 4; thread++) {
                int seed = thread;
                Callable<Void> loop = () -> useUntilClosed(db, seed, calls);
                work.add(threads.submit(loop));
            }
            Thread.sleep(400);
            db.close();
            for (Future<Void> one : work) {
                one.get(1, TimeUnit.MINUTES);
            }
            assertThrows(TerraceException.class, () -> db.get(b("a")));
        }
        threads.shutdown();
        assertTrue(calls.get() > 1000, calls + " calls");
        assertTrue(TerraceFactory.factory.verify(dir.resolve("db").toFile(), new TerraceOptions()).isClean());
    }

    private static Void useUntilClosed(TerraceDB db, int seed, AtomicLong calls) {
        try {
            for (int i = 0; ; i++, calls.incrementAndGet()) {
                byte[] key = b("k" + (i * 7919 + seed) % 5000);
                switch ((i + seed) % 6) {
                    case 0:
                        db.write(db.createWriteBatch().put(key, key).delete(b("x")));
                        break;
                    case 1:
                        db.get(key);
                        break;
                    case 2:
                        try (TerraceIterator iterator = db.iterator()) {
                            iterator.seek(key);
                            for (int n = 0; n < 50 && iterator.hasNext(); n++) {
                                iterator.next();
                            }
                        }
                        break;
                    case 3:
                        try (TerraceSnapshot snapshot = db.getSnapshot()) {
                            db.get(key, new ReadOptions().snapshot(snapshot));
                        }
                        break;
                    case 4:
                        try (TerraceTransaction transaction = db.begin()) {
                            transaction.get(b("t" + seed));
                            transaction.put(b("t" + seed), key);
                            transaction.commit();
                        }
                        break;
                    default:
                        db.put(key, new byte[200]);
                }
            }
        } catch (TerraceException e) {
            assertEquals(ErrorKind.CLOSED, e.kind(), e.getMessage());
            return null;
        }
    }
}
