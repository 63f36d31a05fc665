package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.finish;
import static org.terracedb.Fixture.open;
import static org.terracedb.Fixture.rest;
import static org.terracedb.Fixture.start;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Situations that need a virtual machine of their own. */
class ProcessTest {
    @TempDir Path dir;

    private String run(List<String> flags, String task) throws Exception {
        return finish(start(Child.class, flags, task, dir.resolve("db").toString()));
    }

    @Test
    void exitWithoutClose() throws Exception {
        assertEquals("7 written", run(List.of(), "exit"));
        try (TerraceDB db = open(dir.resolve("db"))) {
            assertEquals("a=1", rest(db.iterator()));
        }
    }

    /** The shutdown hook closes a database whose comparator is an object of Java. */
    @Test
    void exitWithComparatorAndBackgroundWork() throws Exception {
        assertEquals("0 written", run(List.of(), "exit-with-comparator"));
    }

    @Test
    void comparatorThatThrowsEndsTheProcess() throws Exception {
        String result = run(List.of(), "comparator-throws");
        assertFalse(result.startsWith("0 "), result);
        assertTrue(result.contains("IllegalStateException: cannot compare"), result);
        assertTrue(result.contains("terrace: the comparator has thrown an exception"), result);
    }

    /** 100,000 of each object, forgotten, in a heap of 32 MiB. */
    @Test
    void forgottenObjectsNeedNoMemory() throws Exception {
        String result = run(List.of("-Xmx32m", "-XX:MaxDirectMemorySize=16m"), "forget");
        assertTrue(result.startsWith("0 "), result);
        long grown = Long.parseLong(result.substring(result.lastIndexOf(' ') + 1));
        assertTrue(grown < 32 << 10, "grown by KiB: " + result);
    }

    @Test
    void forgottenDatabaseCloses() throws Exception {
        assertEquals("0 reopened", run(List.of(), "forget-database"));
    }

    /** Each acknowledged write exists after kill -9, and so does every one before it. */
    @Test
    void killedProcessLosesNothing() throws Exception {
        long expected = 0;
        for (int round = 0; round < 4; round++) {
            Process child =
                    start(Child.class, List.of(), "write", dir.resolve("db").toString(), "" + expected);
            BufferedReader ledger =
                    new BufferedReader(new InputStreamReader(child.getInputStream()));
            for (int lines = 0; lines < 200 * (round + 1); lines++) {
                String line = ledger.readLine();
                assertNotNull(line);
                expected = Long.parseLong(line) + 1;
            }
            // Process.destroyForcibly would close the pipe with the rest of the ledger.
            child.toHandle().destroyForcibly();
            for (String line = ledger.readLine(); line != null; line = ledger.readLine()) {
                expected = line.matches("\\d{8}") ? Long.parseLong(line) + 1 : expected;
            }
            child.waitFor();
            try (TerraceDB db = open(dir.resolve("db"))) {
                long found = db.stream().count();
                assertTrue(found >= expected, found + " of " + expected);
                for (long i = 0; i < found; i++) {
                    assertArrayEquals(Child.value(i), db.get(b(String.format("%08d", i))));
                }
                expected = found;
            }
        }
        assertTrue(TerraceFactory.factory.verify(dir.resolve("db").toFile(), new TerraceOptions()).isClean());
    }

    @Test
    void writerAndFollowerInTwoProcesses() throws Exception {
        Process child = start(Child.class, List.of(), "write", dir.resolve("db").toString(), "0");
        BufferedReader ledger = new BufferedReader(new InputStreamReader(child.getInputStream()));
        ledger.readLine();
        try (TerraceDB follower =
                TerraceFactory.factory.follow(
                        dir.resolve("db").toFile(), new TerraceOptions(), java.time.Duration.ofSeconds(1))) {
            for (int i = 0; i < 200; i++) {
                String acknowledged = ledger.readLine();
                follower.catchUp();
                assertNotNull(follower.get(b(acknowledged)), acknowledged);
            }
        } finally {
            child.destroyForcibly().waitFor();
        }
    }

    @Test
    void platformWithoutLibraryIsNamed() throws Exception {
        String result = run(List.of("-Dorg.terracedb.library=", "-Dos.arch=sparc"), "platform");
        assertTrue(result.contains("no native library for the platform linux-sparc"), result);
        assertTrue(result.contains("org.terracedb.library"), result);
        assertEquals("linux-x86_64", NativeLibrary.platform("Linux", "amd64"));
        assertEquals("osx-aarch64", NativeLibrary.platform("Mac OS X", "aarch64"));
        assertEquals("windows-x86_64", NativeLibrary.platform("Windows 11", "amd64"));
        String message = NativeLibrary.missing("osx-aarch64", List.of("linux-x86_64"));
        assertTrue(message.contains("Available: linux-x86_64."), message);
    }

    /** Two class loaders load two copies of the library. The second opener is refused. */
    @Test
    void twoVersionsInOneProcess() throws Exception {
        assertEquals("0 LOCKED, then 1", run(List.of(), "two-versions"));
    }
}
