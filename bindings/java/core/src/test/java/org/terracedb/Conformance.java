package org.terracedb;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.iq80.leveldb.WriteOptions;

/** Driver of the conformance cases, whose language `bindings/conformance/README.md` describes. */
final class Conformance {
    private static final Set<String> RESULTS = Set.of("expect", "count", "missing", "error");
    private static final Set<String> FEATURES =
            Set.of(
                    "prev",
                    "use-after-close",
                    "snapshot",
                    "delete-range",
                    "get-many",
                    "read-only",
                    "repair");
    private static final Map<String, ErrorKind> KINDS =
            Map.of(
                    "closed", ErrorKind.CLOSED,
                    "locked", ErrorKind.LOCKED,
                    "corruption", ErrorKind.CORRUPTION,
                    "io", ErrorKind.IO,
                    "invalid", ErrorKind.INVALID,
                    "unsupported", ErrorKind.UNSUPPORTED);
    private static final String SMALL_DISK = System.getenv("TERRACE_SMALL_DISK");

    private final File directory;
    private TerraceDB db;
    private final Map<String, TerraceSnapshot> snapshots = new HashMap<>();
    private final Map<String, TerraceIterator> iterators = new HashMap<>();

    private Conformance(File directory) {
        this.directory = directory;
    }

    public static void main(String[] arguments) throws Exception {
        int cases = 0;
        int skipped = 0;
        int failed = 0;
        try (Stream<Path> files = Files.list(Path.of(System.getenv("TERRACE_CONFORMANCE")))) {
            for (Path file : files.sorted().collect(Collectors.toList())) {
                for (List<Line> lines : file.toString().endsWith(".txt") ? cases(file) : List.<List<Line>>of()) {
                    cases++;
                    Boolean passed = run(lines);
                    skipped += passed == null ? 1 : 0;
                    failed += Boolean.FALSE.equals(passed) ? 1 : 0;
                }
            }
        }
        System.out.println(cases + " cases, " + skipped + " skipped");
        System.exit(failed > 0 ? 1 : 0);
    }

    /** Words of a line, and its place. */
    private static final class Line {
        final String place;
        final List<String> words;

        Line(String place, List<String> words) {
            this.place = place;
            this.words = words;
        }
    }

    private static List<List<Line>> cases(Path file) throws IOException {
        List<List<Line>> cases = new ArrayList<>();
        int number = 0;
        for (String text : Files.readAllLines(file)) {
            number++;
            String line = text.trim();
            if (line.isEmpty() || line.startsWith("#")) {
                continue;
            }
            List<String> words = List.of(line.split(" +"));
            if (words.get(0).equals("case")) {
                cases.add(new ArrayList<>());
            }
            cases.get(cases.size() - 1).add(new Line(file.getFileName() + ":" + number, words));
        }
        return cases;
    }

    /** Returns true if the case passes, and null if it is skipped. */
    private static Boolean run(List<Line> lines) throws Exception {
        String name = lines.get(0).words.get(1);
        List<String> requires =
                lines.get(1).words.get(0).equals("requires") ? lines.get(1).words : List.of();
        boolean isSmall = requires.contains("small-disk");
        if (isSmall && SMALL_DISK == null) {
            System.out.println("NOT TESTED: " + name + ": no small disk");
            return null;
        }
        for (String feature : requires.subList(Math.min(1, requires.size()), requires.size())) {
            if (!FEATURES.contains(feature) && !feature.equals("small-disk")) {
                return null;
            }
        }
        Path parent =
                isSmall ? Path.of(SMALL_DISK) : Files.createTempDirectory("conformance");
        Conformance session = new Conformance(parent.resolve(name).toFile());
        try {
            return session.steps(lines.subList(requires.isEmpty() ? 1 : 2, lines.size()));
        } finally {
            session.end();
            removeAll(isSmall ? parent.resolve(name) : parent);
        }
    }

    private void end() {
        iterators.values().forEach(TerraceIterator::close);
        snapshots.values().forEach(TerraceSnapshot::close);
        if (db != null) {
            db.close();
        }
    }

    private static void removeAll(Path path) throws IOException {
        if (Files.exists(path)) {
            try (Stream<Path> all = Files.walk(path)) {
                all.sorted((a, b) -> b.compareTo(a)).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    private boolean steps(List<Line> lines) throws Exception {
        for (int i = 0; i < lines.size(); i++) {
            Line step = lines.get(i);
            boolean hasResult =
                    i + 1 < lines.size() && RESULTS.contains(lines.get(i + 1).words.get(0));
            List<String> expected = hasResult ? lines.get(++i).words : List.of("any");
            Object found;
            try {
                found = step(step.words);
            } catch (TerraceException | TerraceIOException e) {
                found = e;
            }
            if (!agrees(found, expected)) {
                System.out.println(
                        step.place + ": " + String.join(" ", step.words) + ": found "
                                + show(found) + ", expected " + String.join(" ", expected));
                return false;
            }
        }
        return true;
    }

    private static String show(Object found) {
        if (found instanceof TerraceException) {
            return ((TerraceException) found).kind() + " " + found;
        }
        return found instanceof byte[] ? Fixture.s((byte[]) found) : String.valueOf(found);
    }

    private static boolean agrees(Object found, List<String> expected) {
        if (found instanceof Exception) {
            ErrorKind kind =
                    found instanceof TerraceException
                            ? ((TerraceException) found).kind()
                            : ((TerraceIOException) found).kind();
            String message = ((Exception) found).getMessage();
            return expected.get(0).equals("error")
                    && kind == KINDS.get(expected.get(1))
                    && expected.stream().skip(2).allMatch(message::contains);
        }
        switch (expected.get(0)) {
            case "any":
                return true;
            case "missing":
                return found == null;
            case "count":
                return ((List<?>) found).size() == Integer.parseInt(expected.get(1));
            case "expect":
                if (found instanceof byte[]) {
                    return Arrays.equals((byte[]) found, bytes(expected.get(1)));
                }
                List<Entry> entries =
                        expected.stream().skip(1).map(Conformance::entry).collect(Collectors.toList());
                return Objects.equals(found, entries);
            default:
                return false;
        }
    }

    // Words.

    private static byte[] bytes(String word) {
        int star = word.indexOf('*');
        if (star >= 0) {
            byte[] unit = bytes(word.substring(0, star));
            int count = Integer.parseInt(word.substring(star + 1));
            byte[] all = new byte[unit.length * count];
            for (int i = 0; i < count; i++) {
                System.arraycopy(unit, 0, all, i * unit.length, unit.length);
            }
            return all;
        }
        java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
        for (int i = 0; i < word.length() && !word.equals("\"\""); i++) {
            if (word.charAt(i) == '\\') {
                out.write(Integer.parseInt(word.substring(i + 2, i + 4), 16));
                i += 3;
            } else {
                out.write(word.charAt(i));
            }
        }
        return out.toByteArray();
    }

    /** Returns an entry. A word without {@code =} is a key without a value. */
    private static Entry entry(String word) {
        int equals = word.indexOf('=');
        return equals < 0
                ? new Entry(bytes(word), null)
                : new Entry(bytes(word.substring(0, equals)), bytes(word.substring(equals + 1)));
    }

    // Steps.

    private Object step(List<String> words) throws Exception {
        String first = words.size() > 1 ? words.get(1) : null;
        boolean isSync = words.get(words.size() - 1).equals("sync");
        switch (words.get(0)) {
            case "open":
                TerraceDB opened = open(first);
                db = opened;
                return null;
            case "close":
                if (db != null) {
                    db.close();
                }
                return null;
            case "put":
                db.put(bytes(first), bytes(words.get(2)), new WriteOptions().sync(isSync));
                return null;
            case "delete":
                db.delete(bytes(first), new WriteOptions().sync(isSync));
                return null;
            case "batch":
                return batch(words.subList(1, words.size()));
            case "get":
                return db.get(bytes(first), at(words));
            case "get-many":
                return getMany(words.subList(1, words.size()));
            case "scan":
                return scan(words);
            case "delete-range":
                db.deleteRange(bytes(first), bytes(words.get(2)));
                return null;
            case "fill":
                return fill(Integer.parseInt(first), new byte[Integer.parseInt(words.get(2))]);
            case "snapshot":
                snapshots.put(first, db.getSnapshot());
                return null;
            case "release":
                return release(first);
            case "iterator":
                iterators.put(first, db.iterator(at(words)));
                return null;
            case "first":
            case "last":
            case "seek":
            case "next":
            case "prev":
                return move(words);
            case "compact":
                db.compactRange(null, null);
                return null;
            case "repair":
                TerraceFactory.factory.repair(directory, new TerraceOptions());
                return null;
            case "destroy":
                TerraceFactory.factory.destroy(directory, new TerraceOptions());
                return null;
            default:
                return files(words);
        }
    }

    private TerraceDB open(String how) throws IOException {
        TerraceOptions options = new TerraceOptions();
        options.createIfMissing(how == null || how.equals("new"));
        options.errorIfExists("new".equals(how));
        options.readOnly("read-only".equals(how));
        return TerraceFactory.factory.open(directory, options);
    }

    private Object batch(List<String> operations) {
        TerraceWriteBatch batch = db.createWriteBatch();
        for (String operation : operations) {
            Entry entry = entry(operation.substring(1));
            if (operation.startsWith("+")) {
                batch.put(entry.getKey(), entry.getValue());
            } else {
                batch.delete(entry.getKey());
            }
        }
        db.write(batch);
        return null;
    }

    private TerraceReadOptions at(List<String> words) {
        int at = words.indexOf("at");
        TerraceReadOptions options = new TerraceReadOptions();
        return at < 0 ? options : options.snapshot(snapshots.get(words.get(at + 1)));
    }

    private List<Entry> getMany(List<String> words) {
        List<byte[]> keys = words.stream().map(Conformance::bytes).collect(Collectors.toList());
        byte[][] values = db.getMany(keys);
        List<Entry> entries = new ArrayList<>();
        for (int i = 0; i < values.length; i++) {
            entries.add(new Entry(keys.get(i), values[i]));
        }
        return entries;
    }

    private List<Map.Entry<byte[], byte[]>> scan(List<String> words) {
        TerraceReadOptions options = at(words);
        int limit = Integer.MAX_VALUE;
        for (int i = 1; i + 1 < words.size(); i++) {
            String argument = words.get(i + 1);
            switch (words.get(i)) {
                case "from":
                    options.lowerBound(bytes(argument));
                    break;
                case "to":
                    options.upperBound(bytes(argument));
                    break;
                case "prefix":
                    options.prefix(bytes(argument));
                    break;
                case "limit":
                    limit = Integer.parseInt(argument);
                    break;
                default:
            }
        }
        boolean reverse = words.contains("reverse");
        List<Map.Entry<byte[], byte[]>> entries = new ArrayList<>();
        try (TerraceIterator iterator = db.iterator(options)) {
            if (reverse) {
                iterator.seekToEnd();
            }
            while (entries.size() < limit && (reverse ? iterator.hasPrev() : iterator.hasNext())) {
                entries.add(reverse ? iterator.prev() : iterator.next());
            }
        }
        return entries;
    }

    private Object fill(int count, byte[] value) {
        Arrays.fill(value, (byte) 'v');
        for (int i = 0; i < count; i++) {
            db.put(Fixture.b(String.format("k%08d", i)), value);
        }
        return null;
    }

    private Object release(String name) {
        TerraceSnapshot snapshot = snapshots.remove(name);
        if (snapshot != null) {
            snapshot.close();
        } else {
            iterators.remove(name).close();
        }
        return null;
    }

    /** A cursor at an entry is an iterator before this entry. */
    private List<Entry> move(List<String> words) {
        TerraceIterator iterator = iterators.get(words.get(1));
        switch (words.get(0)) {
            case "first":
                iterator.seekToFirst();
                break;
            case "last":
                iterator.seekToLast();
                break;
            case "seek":
                iterator.seek(bytes(words.get(2)));
                break;
            case "next":
                iterator.next();
                break;
            default:
                if (!iterator.hasPrev()) {
                    return null;
                }
                iterator.prev();
        }
        try {
            return List.of((Entry) iterator.peekNext());
        } catch (NoSuchElementException e) {
            return null;
        }
    }

    private Object files(List<String> words) throws Exception {
        switch (words.get(0)) {
            case "protect":
                return remount("ro");
            case "unprotect":
                return remount("rw");
            default:
        }
        File[] files = directory.listFiles((parent, name) -> name.endsWith(words.get(1)));
        if (files.length == 0) {
            throw new IllegalStateException("no file ends in " + words.get(1));
        }
        for (File file : files) {
            change(file.toPath(), words);
        }
        return null;
    }

    private static void change(Path file, List<String> words) throws IOException {
        byte[] content = Files.readAllBytes(file);
        switch (words.get(0)) {
            case "damage":
                int offset = Integer.parseInt(words.get(2));
                content[offset < 0 ? content.length + offset : offset] ^= (byte) 0xff;
                Files.write(file, content);
                break;
            case "truncate":
                Files.write(file, Arrays.copyOf(content, Integer.parseInt(words.get(2))));
                break;
            case "remove":
                Files.delete(file);
                break;
            default:
                throw new IllegalArgumentException("unknown step " + words.get(0));
        }
    }

    private static Object remount(String how) throws Exception {
        Process mount =
                new ProcessBuilder("mount", "-o", "remount," + how, SMALL_DISK).inheritIO().start();
        if (mount.waitFor() != 0) {
            throw new IllegalStateException("mount -o remount," + how);
        }
        return null;
    }
}
