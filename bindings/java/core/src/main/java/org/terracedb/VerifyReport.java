package org.terracedb;

import java.util.List;

/** Findings of {@link TerraceFactory#verify}. */
public final class VerifyReport {
    private final String text;
    private final List<String> problems;

    VerifyReport(String text, List<String> problems) {
        this.text = text;
        this.problems = List.copyOf(problems);
    }

    /** Returns one line for each problem, with file, offset, found and expected value. */
    public List<String> problems() {
        return problems;
    }

    /** Returns true if there is no problem. */
    public boolean isClean() {
        return problems.isEmpty();
    }

    /** Returns the whole report as text. */
    @Override
    public String toString() {
        return text;
    }
}
