package org.terracedb;

import static org.terracedb.Fixture.b;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.iq80.leveldb.DBComparator;
import org.iq80.leveldb.DBFactory;
import org.iq80.leveldb.Options;

/** Program of a child process of {@link ProcessTest}. */
final class Child {
    private Child() {}

    public static void main(String[] arguments) throws Exception {
        Path path = Path.of(arguments[1]);
        switch (arguments[0]) {
            case "exit":
                Fixture.open(path).put(b("a"), b("1"));
                System.out.println("written");
                System.exit(7);
                break;
            case "exit-with-comparator":
                exitWithComparator(path.toFile());
                break;
            case "comparator-throws":
                comparatorThrows(path.toFile());
                break;
            case "forget":
                forget(path);
                break;
            case "forget-database":
                forgetDatabase(path);
                break;
            case "write":
                write(path, Long.parseLong(arguments[2]));
                break;
            case "platform":
                System.clearProperty("org.terracedb.library");
                Fixture.open(path);
                break;
            case "two-versions":
                twoVersions(path.toFile());
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Returns a value of 0 to 999 bytes. */
    static byte[] value(long i) {
        byte[] value = new byte[(int) (i * 37 % 1000)];
        Arrays.fill(value, (byte) i);
        return value;
    }

    private static void exitWithComparator(File path) throws Exception {
        Options options =
                new TerraceOptions()
                        .comparator(new InterfaceTest.Reverse())
                        .writeBufferSize(1 << 16);
        TerraceDB db = TerraceFactory.factory.open(path, options);
        for (long i = 0; i < 3000; i++) {
            db.put(b("k" + i), value(i));
        }
        System.out.println("written");
    }

    private static void comparatorThrows(File path) throws Exception {
        DBComparator failing =
                new DBComparator() {
                    @Override
                    public String name() {
                        return "failing";
                    }

                    @Override
                    public int compare(byte[] a, byte[] b) {
                        throw new IllegalStateException("cannot compare");
                    }

                    @Override
                    public byte[] findShortestSeparator(byte[] start, byte[] limit) {
                        return start;
                    }

                    @Override
                    public byte[] findShortSuccessor(byte[] key) {
                        return key;
                    }
                };
        TerraceDB db =
                TerraceFactory.factory.open(path, new TerraceOptions().comparator(failing));
        db.put(b("a"), b("1"));
        db.put(b("b"), b("2"));
    }

    private static void forget(Path path) throws Exception {
        TerraceDB db = Fixture.open(path);
        for (int i = 0; i < 1000; i++) {
            db.put(b("k" + i), new byte[100]);
        }
        long before = 0;
        for (int i = 0; i < 100_000; i++) {
            TerraceIterator iterator = db.iterator();
            iterator.seek(b("k5"));
            iterator.next();
            db.getSnapshot();
            if (i % 10 == 0) {
                db.begin().put(b("x"), b("y"));
            }
            if (i % 10_000 == 9_999) {
                // On a busy machine, the thread that frees forgotten objects gets no processor.
                System.gc();
                Thread.sleep(20);
            }
            if (i == 20_000) {
                before = residentKib();
            }
        }
        System.out.println(residentKib() - before);
    }

    private static long residentKib() throws Exception {
        String status = Files.readString(Path.of("/proc/self/status"));
        String line = status.lines().filter(l -> l.startsWith("VmRSS")).findFirst().orElseThrow();
        return Long.parseLong(line.replaceAll("[^0-9]", ""));
    }

    private static void forgetDatabase(Path path) throws Exception {
        Fixture.open(path).put(b("a"), b("1"));
        for (int attempt = 0; ; attempt++) {
            System.gc();
            Thread.sleep(50);
            try (TerraceDB again = Fixture.open(path)) {
                System.out.println(again.get(b("a")) == null ? "lost" : "reopened");
                return;
            } catch (TerraceIOException e) {
                if (attempt == 100) {
                    throw e;
                }
            }
        }
    }

    /** Writes ever more keys, and prints each key after its write. */
    private static void write(Path path, long first) throws Exception {
        TerraceDB db =
                TerraceFactory.factory.open(
                        path.toFile(), new TerraceOptions().writeBufferSize(1 << 16));
        for (long i = first; ; i++) {
            String key = String.format("%08d", i);
            db.put(b(key), value(i));
            System.out.println(key);
        }
    }

    private static void twoVersions(File path) throws Exception {
        try (TerraceDB db = Fixture.open(path.toPath())) {
            db.put(b("a"), b("1"));
            System.out.print(open(otherCopy(), path));
        }
        System.out.println(", then " + open(otherCopy(), path));
    }

    /** Returns the factory of classes, and of a library, that are loaded a second time. */
    private static DBFactory otherCopy() throws Exception {
        Path copy = Files.createTempFile("other", ".so");
        Path library = Path.of(System.getProperty("org.terracedb.library"));
        Files.copy(library, copy, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
        System.setProperty("org.terracedb.library", copy.toString());
        List<URL> urls = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            urls.add(new File(entry).toURI().toURL());
        }
        ClassLoader interfaces =
                new ClassLoader(ClassLoader.getPlatformClassLoader()) {
                    @Override
                    protected Class<?> findClass(String name) throws ClassNotFoundException {
                        if (name.startsWith("org.iq80.leveldb.")) {
                            return Child.class.getClassLoader().loadClass(name);
                        }
                        throw new ClassNotFoundException(name);
                    }
                };
        ClassLoader other = new URLClassLoader(urls.toArray(new URL[0]), interfaces);
        Class<?> factory = other.loadClass("org.terracedb.TerraceFactory");
        return (DBFactory) factory.getDeclaredConstructor().newInstance();
    }

    private static String open(DBFactory factory, File path) throws Exception {
        try (org.iq80.leveldb.DB db = factory.open(path, new Options())) {
            return Fixture.s(db.get(b("a")));
        } catch (java.io.IOException e) {
            return e.getClass().getMethod("kind").invoke(e).toString();
        }
    }
}
