package org.terracedb;

import static org.terracedb.Fixture.b;
import static org.terracedb.Fixture.s;

import java.io.File;
import java.io.RandomAccessFile;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import org.fusesource.leveldbjni.JniDBFactory;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.WriteBatch;

/**
 * Writer or follower of a database that programs of several languages share: see {@code
 * bindings/mixed/README.md}.
 */
final class MixedProcess {
    private static final int SLOTS = 16;
    private static final int LIVE = 8;
    private static final int RECORD = 9;

    private final File directory;
    private final File ledger;

    private MixedProcess(String directory) {
        this.directory = new File(directory);
        this.ledger = new File(directory + ".ledger");
    }

    public static void main(String[] arguments) throws Exception {
        MixedProcess process = new MixedProcess(arguments[2]);
        if (arguments[0].equals("write")) {
            boolean isOurs = arguments[1].equals("terrace");
            process.write(
                    isOurs ? TerraceFactory.factory : JniDBFactory.factory,
                    Double.parseDouble(arguments[3]));
        } else {
            process.follow();
        }
    }

    private static String key(long number) {
        return String.format("k%02d", number % SLOTS);
    }

    private static String value(long number) {
        return (number + " ").repeat((int) (number * 37 % 200 + 1));
    }

    private static Map<String, String> entriesOf(long state) {
        Map<String, String> entries = new TreeMap<>();
        for (long number = Math.max(1, state - LIVE + 1); number <= state; number++) {
            entries.put(key(number), value(number));
        }
        if (state > 0) {
            entries.put("state", Long.toString(state));
        }
        return entries;
    }

    /** Reads all entries, and returns the number of their state. */
    private static long readState(DB db) throws Exception {
        StringBuilder found = new StringBuilder();
        long state = 0;
        try (DBIterator iterator = db.iterator()) {
            for (iterator.seekToFirst(); iterator.hasNext(); ) {
                Map.Entry<byte[], byte[]> entry = iterator.next();
                found.append(s(entry.getKey())).append('=').append(s(entry.getValue())).append('\n');
                state = s(entry.getKey()).equals("state") ? Long.parseLong(s(entry.getValue())) : 0;
            }
        }
        StringBuilder expected = new StringBuilder();
        entriesOf(state).forEach((k, v) -> expected.append(k).append('=').append(v).append('\n'));
        check(found.toString().equals(expected.toString()), "no state: " + found);
        return state;
    }

    private static void check(boolean isRight, String what) {
        if (!isRight) {
            throw new IllegalStateException(what);
        }
    }

    /** Returns the last number of the ledger, or 0. */
    private long lastOfLedger() throws Exception {
        if (!ledger.exists()) {
            return 0;
        }
        try (RandomAccessFile file = new RandomAccessFile(ledger, "r")) {
            long end = file.length() / RECORD * RECORD;
            if (end == 0) {
                return 0;
            }
            file.seek(end - RECORD);
            return Long.parseLong(file.readLine());
        }
    }

    private void write(DBFactory factory, double seconds) throws Exception {
        try (DB db = factory.open(directory, new Options().writeBufferSize(65536));
                RandomAccessFile file = new RandomAccessFile(ledger, "rw")) {
            long state = readState(db);
            check(state >= lastOfLedger(), "state " + state + " is older than the ledger");
            file.seek(file.length());
            long end = System.nanoTime() + (long) (seconds * 1e9);
            while (System.nanoTime() < end) {
                state++;
                try (WriteBatch batch = db.createWriteBatch()) {
                    batch.put(b("state"), b(Long.toString(state)));
                    batch.put(b(key(state)), b(value(state)));
                    batch.delete(b(key(state + LIVE)));
                    db.write(batch);
                }
                file.write(b(String.format("%08d\n", state)));
            }
        }
    }

    private void follow() throws Exception {
        File stop = new File(directory + ".stop");
        try (TerraceDB db =
                TerraceFactory.factory.follow(directory, new Options(), Duration.ofMillis(10))) {
            long state = 0;
            long reads = 0;
            for (boolean isLast = false; !isLast; reads++) {
                isLast = stop.exists();
                long atLeast = state;
                if (reads % 2 == 0 || isLast) {
                    atLeast = Math.max(state, lastOfLedger());
                    db.catchUp();
                }
                state = readState(db);
                check(state >= atLeast, "state " + state + " is older than " + atLeast);
            }
            System.out.println(reads + " " + state);
        }
    }
}
