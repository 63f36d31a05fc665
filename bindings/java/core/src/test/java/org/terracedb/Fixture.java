package org.terracedb;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Short forms for the tests. */
final class Fixture {
    static final Comparator<byte[]> BYTEWISE = Arrays::compareUnsigned;

    private Fixture() {}

    static byte[] b(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String s(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static TerraceDB open(Path directory) throws IOException {
        return TerraceFactory.factory.open(directory.toFile(), new TerraceOptions());
    }

    static String s(Map.Entry<byte[], byte[]> entry) {
        return s(entry.getKey()) + "=" + s(entry.getValue());
    }

    /** Returns the remaining entries as text. */
    static String rest(Iterator<Map.Entry<byte[], byte[]>> iterator) {
        List<String> entries = new ArrayList<>();
        iterator.forEachRemaining(entry -> entries.add(s(entry)));
        return String.join(" ", entries);
    }

    /** Starts {@code main} of a class in a virtual machine of its own. */
    static Process start(Class<?> main, List<String> flags, String... arguments)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        String library = System.getProperty("org.terracedb.library");
        if (library != null && flags.stream().noneMatch(f -> f.contains("org.terracedb.library"))) {
            command.add("-Dorg.terracedb.library=" + library);
        }
        command.add("-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"));
        command.addAll(List.of("-XX:-CreateCoredumpOnCrash", "-Xmx256m"));
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.directory(new File(System.getProperty("java.io.tmpdir")));
        return builder.start();
    }

    /** Returns the exit code and the output of a process that must end within two minutes. */
    static String finish(Process process) throws IOException, InterruptedException {
        String output = s(process.getInputStream().readAllBytes());
        if (!process.waitFor(2, TimeUnit.MINUTES)) {
            process.destroyForcibly();
            throw new IOException("the process does not end: " + output);
        }
        return process.exitValue() + " " + output.trim();
    }
}
