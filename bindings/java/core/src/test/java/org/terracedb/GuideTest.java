package org.terracedb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each block of Java in the guide compiles, runs, and prints the text of the block after it. */
class GuideTest {
    private static final Pattern BLOCK =
            Pattern.compile("```java\n(.*?)```(?:\n+```text\n(.*?)```)?", Pattern.DOTALL);
    private static final String IMPORTS =
            "import java.io.*; import java.nio.*; import java.time.*; import java.util.*;"
                    + " import org.iq80.leveldb.*; import org.terracedb.*;\n";

    @TempDir Path dir;

    @Test
    void blocks() throws Exception {
        String guide = Files.readString(Path.of(System.getProperty("org.terracedb.guide")));
        Matcher blocks = BLOCK.matcher(guide);
        int count = 0;
        while (blocks.find()) {
            String name = "Block" + count++;
            Path source = dir.resolve(name + ".java");
            Files.writeString(
                    source,
                    IMPORTS + "class " + name
                            + " { public static void main(String[] a) throws Exception {\n"
                            + blocks.group(1) + "} }\n");
            compile(source);
            String expected = blocks.group(2) == null ? "" : blocks.group(2).trim();
            assertEquals(expected, run(name), blocks.group(1));
        }
        assertTrue(count >= 5, count + " blocks");
    }

    private void compile(Path source) {
        int status =
                ToolProvider.getSystemJavaCompiler()
                        .run(
                                null,
                                null,
                                null,
                                "-cp",
                                System.getProperty("java.class.path"),
                                "-d",
                                dir.toString(),
                                source.toString());
        assertEquals(0, status, source.toString());
    }

    private String run(String name) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-Dorg.terracedb.library=" + System.getProperty("org.terracedb.library"));
        command.add("-cp");
        command.add(dir + File.pathSeparator + System.getProperty("java.class.path"));
        command.add(name);
        Path work = Files.createDirectories(dir.resolve("work"));
        Process process =
                new ProcessBuilder(command)
                        .directory(work.toFile())
                        .redirectErrorStream(true)
                        .start();
        String result = Fixture.finish(process);
        assertTrue(result.startsWith("0 "), name + ": " + result);
        return result.substring(2).trim();
    }
}
