"""Runs writers and followers of several languages on one database: see README.md.

run.py TARGET [--all]    TARGET is the build directory of Cargo
"""

import itertools
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

TARGET = pathlib.Path(sys.argv[1])
ALL = "--all" in sys.argv
BINDINGS = pathlib.Path(__file__).resolve().parent.parent
BUILT = TARGET / "bindings"
MAVEN = pathlib.Path(os.environ.get("MAVEN_REPO", pathlib.Path.home() / ".m2/repository"))
RECORD = 9


def jar(path):
    return next(iter(sorted(MAVEN.glob(path))), MAVEN / path)


CLASSES = BUILT / "java/maven/terrace-java"
CLASS_PATH = [
    CLASSES / "classes",
    CLASSES / "test-classes",
    jar("org/iq80/leveldb/leveldb-api/0.12/leveldb-api-0.12.jar"),
    jar("org/fusesource/leveldbjni/leveldbjni-all/1.8/leveldbjni-all-1.8.jar"),
]

# Command of each language, and the file that its check has built.
PROGRAMS = {
    "c": ([BUILT / "c/mixed-process"], BUILT / "c/mixed-process"),
    "python": (
        [BUILT / "python/venv/bin/python", BINDINGS / "python/tests/mixed_process.py"],
        BUILT / "python/module/terrace/_terrace.abi3.so",
    ),
    "node": (["node", BINDINGS / "node/test/mixed-process.js"], BUILT / "node/terrace.node"),
    "java": (
        [
            "java",
            "-Xmx256m",
            f"-Dorg.terracedb.library={TARGET}/ci/libterrace_jni.so",
            "-cp",
            ":".join(map(str, CLASS_PATH)),
            "org.terracedb.MixedProcess",
        ],
        CLASSES / "test-classes/org/terracedb/MixedProcess.class",
    ),
    "go": ([BUILT / "go/mixed-process"], BUILT / "go/mixed-process"),
}

# Names of libraries in the programs, by language. leveldbjni cannot read tables with the name `.ldb`, and no other
# writer here gives all tables the old name, so it has a database of its own.
ANY_TABLES = [
    ("c", "terrace"),
    ("python", "terrace"),
    ("python", "plyvel"),
    ("node", ".."),
    ("node", "classic-level"),
    ("java", "terrace"),
    ("go", "terrace"),
    ("go", "goleveldb"),
]
OLD_TABLES = [("java", "terrace"), ("java", "leveldbjni")]

# LevelDB, killed or closed, may leave a MANIFEST whose last sequence number is later than the first records of the
# log. goleveldb skips these records, and loses them: in 30 of 60 tries of a closed plyvel and goleveldb alone. An open
# by Terrace between them keeps the records.
LEVELDB = [("python", "plyvel"), ("node", "classic-level")]
# A writer that is killed in a flush leaves a table that the MANIFEST does not name. LevelDB and goleveldb use its number
# again. If the file has the old name `.sst`, as those of Java, goleveldb counts two tables with one number, and refuses
# the open: "file missing". An open by Terrace removes the table first. The other database has LevelDB after Java.
OLD_NAMES = ("java", "terrace")
GOLEVELDB = ("go", "goleveldb")
NEVER_NEIGHBOURS = [
    *((row, GOLEVELDB) for row in [*LEVELDB, OLD_NAMES]),
    *((OLD_NAMES, row) for row in LEVELDB),
]


def environment():
    names = {
        "PYTHONPATH": BUILT / "python/module",
        "PYTHONDONTWRITEBYTECODE": 1,
        "TERRACE_LEVEL_NATIVE": BUILT / "node/terrace.node",
    }
    return os.environ | {name: str(value) for name, value in names.items()}


def start(language, *arguments):
    command = [*PROGRAMS[language][0], *arguments]
    return subprocess.Popen(
        [str(word) for word in command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def last_state(directory):
    ledger = pathlib.Path(f"{directory}.ledger")
    records = ledger.read_bytes() if ledger.exists() else b""
    return int(records[-RECORD:] or b"0")


def run_writer(language, library, directory, seconds, is_killed):
    """Runs one writer. A killed one must have written before."""
    before = last_state(directory)
    writer = start(language, "write", library, directory, 600 if is_killed else seconds)
    if is_killed:
        end = time.monotonic() + 60
        while last_state(directory) == before and writer.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
    output, _ = writer.communicate(timeout=seconds + 60)
    expected = -signal.SIGKILL if is_killed else 0
    if writer.returncode != expected or last_state(directory) == before:
        sys.exit(f"writer {language} {library}: exit code {writer.returncode}\n{output}")


def run_database(directory, writers, followers, seconds, turns):
    """Returns the number of states, and of reads by followers."""
    generator = random.Random()
    order = []
    while len(order) < turns * len(writers):
        turn = generator.sample(writers, len(writers))
        if not any(pair in NEVER_NEIGHBOURS for pair in itertools.pairwise([*order[-1:], *turn])):
            order += turn
    print(f"writers: {' '.join('/'.join(writer) for writer in order)}; followers: {' '.join(followers)}")
    run_writer(*order[0], directory, seconds, False)
    processes = {language: start(language, "follow", "terrace", directory) for language in followers}
    try:
        for number, writer in enumerate(order[1:]):
            run_writer(*writer, directory, seconds, number % 2 == 0)
            for language, process in processes.items():
                if process.poll() is not None:
                    sys.exit(f"follower {language} after {'/'.join(writer)}: {process.communicate()[0]}")
        pathlib.Path(f"{directory}.stop").touch()
        reads = [check_follower(language, process, directory) for language, process in processes.items()]
    finally:
        for process in processes.values():
            process.kill()
    return last_state(directory), sum(reads)


def check_follower(language, process, directory):
    """Returns the number of reads. The follower must have shown the last state."""
    output, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        sys.exit(f"follower {language}: exit code {process.returncode}\n{output}")
    reads, state = map(int, output.split())
    # The last writer may have been killed between its write and its record.
    if reads < 10 or not last_state(directory) <= state <= last_state(directory) + 1:
        sys.exit(f"follower {language}: {reads} reads, state {state}, expected {last_state(directory)}")
    return reads


def main():
    languages = [name for name, (_, file) in PROGRAMS.items() if file.exists()]
    for missing in PROGRAMS.keys() - set(languages):
        print(f"NOT TESTED: {missing} beside other languages: cargo xtask bindings {missing} has not built it")
    if len(languages) < 2:
        print("fewer than two languages are built")
        sys.exit(3)
    seconds, turns = (10, 6) if ALL else (1, 1)
    states = reads = count = 0
    with tempfile.TemporaryDirectory(dir=BUILT / "mixed") as parent:
        for name, rows, repetitions in [("any", ANY_TABLES, turns), ("old", OLD_TABLES, 2 * turns)]:
            writers = [row for row in rows if row[0] in languages]
            if not writers:
                continue
            found = run_database(pathlib.Path(parent, name), writers, languages, seconds, repetitions)
            states, reads, count = states + found[0], reads + found[1], count + len(writers) * repetitions
    print(f"{count} writers of {len(languages)} languages, {states} states, {reads} reads of followers")


main()
