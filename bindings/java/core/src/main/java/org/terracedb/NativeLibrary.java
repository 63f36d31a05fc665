package org.terracedb;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Loader of the native library.
 *
 * <p>The system property {@code org.terracedb.library} names a file. Without it, the loader copies
 * the library of this platform from the jar to a temporary directory and loads the copy. The
 * property {@code org.terracedb.tmpdir} names another directory, for systems whose temporary
 * directory forbids execution.
 */
final class NativeLibrary {
    /** Platforms that packages may contain. */
    private static final String[][] PLATFORMS = {
        {"linux-x86_64", "libterrace_jni.so"},
        {"linux-aarch64", "libterrace_jni.so"},
        {"osx-x86_64", "libterrace_jni.dylib"},
        {"osx-aarch64", "libterrace_jni.dylib"},
        {"windows-x86_64", "terrace_jni.dll"},
    };

    private NativeLibrary() {}

    static void load() {
        String library = System.getProperty("org.terracedb.library");
        if (library != null) {
            System.load(new File(library).getAbsolutePath());
            return;
        }
        String platform = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
        String resource = resource(platform);
        if (resource == null || NativeLibrary.class.getResource(resource) == null) {
            throw new UnsatisfiedLinkError(missing(platform, available()));
        }
        loadCopy(resource);
    }

    /** Returns the name of a platform, such as {@code linux-x86_64}. */
    static String platform(String osName, String osArch) {
        String os = osName.toLowerCase(Locale.ROOT);
        String system = os.startsWith("mac") ? "osx" : os.startsWith("windows") ? "windows" : os;
        String arch = osArch.equals("amd64") || osArch.equals("x64") ? "x86_64" : osArch;
        return system + "-" + (arch.equals("arm64") ? "aarch64" : arch);
    }

    /** Returns the message for a platform without a library. */
    static String missing(String platform, List<String> available) {
        return "Terrace has no native library for the platform " + platform + ". Available: "
                + (available.isEmpty() ? "none" : String.join(", ", available))
                + ". Build it with `cargo build --release --package terrace-java` and set the"
                + " system property org.terracedb.library to the file.";
    }

    private static String resource(String platform) {
        for (String[] row : PLATFORMS) {
            if (row[0].equals(platform)) {
                return "/META-INF/native/" + row[0] + "/" + row[1];
            }
        }
        return null;
    }

    private static List<String> available() {
        List<String> available = new ArrayList<>();
        for (String[] row : PLATFORMS) {
            if (NativeLibrary.class.getResource(resource(row[0])) != null) {
                available.add(row[0]);
            }
        }
        return available;
    }

    private static void loadCopy(String resource) {
        String directory = System.getProperty("org.terracedb.tmpdir");
        try (InputStream library = NativeLibrary.class.getResourceAsStream(resource)) {
            Path copy =
                    directory == null
                            ? Files.createTempFile("terrace_jni", ".so")
                            : Files.createTempFile(Path.of(directory), "terrace_jni", ".so");
            try {
                Files.copy(library, copy, StandardCopyOption.REPLACE_EXISTING);
                System.load(copy.toAbsolutePath().toString());
            } finally {
                deleteNowOrAtExit(copy);
            }
        } catch (IOException e) {
            UnsatisfiedLinkError error =
                    new UnsatisfiedLinkError(
                            "Terrace cannot copy its native library: " + e
                                    + ". Set the system property org.terracedb.tmpdir to a"
                                    + " directory with enough space.");
            error.initCause(e);
            throw error;
        }
    }

    /** A loaded library needs no name on Linux. Windows keeps the file until the process ends. */
    private static void deleteNowOrAtExit(Path copy) {
        try {
            Files.delete(copy);
        } catch (IOException e) {
            copy.toFile().deleteOnExit();
        }
    }
}
