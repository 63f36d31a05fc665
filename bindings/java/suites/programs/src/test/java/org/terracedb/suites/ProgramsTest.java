package org.terracedb.suites;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Programs that use leveldbjni, on Terrace and on leveldbjni, in turns on one database. */
class ProgramsTest {
    private static final int TURNS = 6;
    private static final List<Boolean> OLD = List.of(false);
    private static final List<Boolean> OWN = List.of(true);
    private static final List<Boolean> MIXED = List.of(true, false);

    @TempDir Path dir;

    @ParameterizedTest
    @ValueSource(classes = {SparkProgram.class, CamelProgram.class})
    void turnsWithLeveldbjni(Class<?> program) throws Exception {
        String expected = run(program, "old", OLD);
        assertTrue(expected.length() > 500, expected);
        assertEquals(expected, run(program, "own", OWN));
        assertEquals(expected, run(program, "mixed", MIXED));
    }

    private String run(Class<?> program, String name, List<Boolean> turns) throws Exception {
        StringBuilder output = new StringBuilder();
        for (int turn = 0; turn < TURNS; turn++) {
            output.append(run(program, dir.resolve(name), turn, turns.get(turn % turns.size())));
        }
        return output.toString();
    }

    /** Runs the program in a virtual machine with one of the two libraries. */
    private String run(Class<?> program, Path database, int turn, boolean withTerrace)
            throws Exception {
        Stream<String> entries =
                Stream.of(System.getProperty("java.class.path").split(File.pathSeparator));
        String classPath =
                withTerrace
                        ? entries.collect(Collectors.joining(File.pathSeparator))
                        : Stream.concat(
                                        entries.filter(entry -> !entry.contains("terrace-leveldbjni")),
                                        Stream.of(System.getProperty("leveldbjni")))
                                .collect(Collectors.joining(File.pathSeparator));
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-Dorg.terracedb.library="
                                        + System.getProperty("org.terracedb.library"),
                                // leveldbjni unpacks its library there and does not delete it.
                                "-Djava.io.tmpdir=" + dir,
                                "-cp",
                                classPath,
                                program.getName(),
                                database.toString(),
                                Integer.toString(turn),
                                Boolean.toString(withTerrace))
                        .redirectErrorStream(true)
                        .start();
        String output =
                new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        return output;
    }
}
