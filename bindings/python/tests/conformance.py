"""Driver of the conformance cases in `bindings/conformance`, which its README describes."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import terrace

FEATURES = {"prev", "snapshot", "use-after-close", "delete-range", "get-many", "read-only", "repair"}
SMALL_DISK = os.environ.get("TERRACE_SMALL_DISK")
RESULTS = {"expect", "count", "missing", "error"}
KINDS = {
    "closed": terrace.ClosedError,
    "locked": terrace.LockedError,
    "corruption": terrace.CorruptionError,
    "io": terrace.IOError,
    "invalid": terrace.InvalidArgumentError,
    "unsupported": terrace.NotSupportedError,
}
ERRORS = (terrace.Error, terrace.ClosedError)


def decode(word):
    if word == '""':
        return b""
    if "*" in word:
        part, count = word.split("*")
        return decode(part) * int(count)
    return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), word.encode())


def entry(word):
    key, separator, value = word.partition("=")
    return decode(key), decode(value) if separator else None


def remount(how):
    subprocess.run(["mount", "-o", f"remount,{how}", SMALL_DISK], check=True)


class Session:
    """State of a running case. A step is a method with its name."""

    def __init__(self, directory):
        self.directory = directory
        self.db = None
        self.snapshots = {}
        self.iterators = {}

    def run(self, words):
        verb, *arguments = words
        return getattr(self, verb.replace("-", "_"))(*arguments)

    def open(self, how=None):
        options = {
            None: {"create_if_missing": True},
            "existing": {},
            "new": {"create_if_missing": True, "error_if_exists": True},
            "read-only": {"read_only": True},
        }
        self.db = terrace.DB(self.directory, **options[how])

    def close(self):
        if self.db:
            self.db.close()

    def put(self, key, value, sync=None):
        self.db.put(decode(key), decode(value), sync=sync == "sync")

    def delete(self, key, sync=None):
        self.db.delete(decode(key), sync=sync == "sync")

    def batch(self, *operations):
        with self.db.write_batch() as batch:
            for operation in operations:
                if operation[0] == "+":
                    batch.put(*entry(operation[1:]))
                else:
                    batch.delete(decode(operation[1:]))

    def get(self, key, at=None, snapshot=None):
        return (self.snapshots[snapshot] if at else self.db).get(decode(key))

    def get_many(self, *keys):
        keys = [decode(key) for key in keys]
        return list(zip(keys, self.db.get_many(keys)))

    def scan(self, *selection):
        words, source, limit, options = iter(selection), self.db, None, {}
        for word in words:
            if word == "reverse":
                options["reverse"] = True
            elif word == "limit":
                limit = int(next(words))
            elif word == "at":
                source = self.snapshots[next(words)]
            else:
                options[{"from": "start", "to": "stop", "prefix": "prefix"}[word]] = decode(next(words))
        iterator = source.iterator(**options)
        return list(iterator) if limit is None else iterator.take(limit)

    def delete_range(self, start, stop):
        self.db.delete_range(decode(start), decode(stop))

    def fill(self, count, size):
        for number in range(int(count)):
            self.db.put(b"k%08d" % number, b"v" * int(size))

    def snapshot(self, name):
        self.snapshots[name] = self.db.snapshot()

    def release(self, name):
        (self.snapshots.pop(name, None) or self.iterators.pop(name)).close()

    def iterator(self, name, at=None, snapshot=None):
        self.iterators[name] = (self.snapshots[snapshot] if at else self.db).raw_iterator()

    def move(self, name, motion, *arguments):
        iterator = self.iterators[name]
        getattr(iterator, motion)(*arguments)
        return [iterator.item()] if iterator.valid() else None

    def first(self, name):
        return self.move(name, "seek_to_first")

    def last(self, name):
        return self.move(name, "seek_to_last")

    def next(self, name):
        return self.move(name, "next")

    def prev(self, name):
        return self.move(name, "prev")

    def seek(self, name, key):
        return self.move(name, "seek", decode(key))

    def compact(self):
        self.db.compact_range()

    def repair(self):
        terrace.repair_db(self.directory)

    def destroy(self):
        terrace.destroy_db(self.directory)

    def files(self, suffix):
        found = [path for path in pathlib.Path(self.directory).iterdir() if path.name.endswith(suffix)]
        assert found, f"no file ends in {suffix}"
        return found

    def damage(self, suffix, offset):
        for path in self.files(suffix):
            content = bytearray(path.read_bytes())
            content[int(offset)] ^= 0xFF
            path.write_bytes(content)

    def truncate(self, suffix, length):
        for path in self.files(suffix):
            os.truncate(path, int(length))

    def remove(self, suffix):
        for path in self.files(suffix):
            path.unlink()

    def protect(self):
        remount("ro")

    def unprotect(self):
        remount("rw")


def agrees(found, expected):
    """Compares the result of a step with a line of results. No line: any result but an error."""
    if expected is None:
        return not isinstance(found, ERRORS)
    verb, *words = expected
    if verb == "error":
        return isinstance(found, KINDS[words[0]]) and all(word in str(found) for word in words[1:])
    if isinstance(found, ERRORS):
        return False
    if verb == "missing":
        return found is None
    if verb == "count":
        return len(found) == int(words[0])
    if isinstance(found, bytes):
        return found == decode(words[0])
    return found == [entry(word) for word in words]


def run_case(lines, directory):
    """Returns the description of the first failure, or None."""
    session = Session(directory)
    steps = iter(range(len(lines)))
    for index in steps:
        number, words = lines[index]
        try:
            found = session.run(words)
        except ERRORS as error:
            found = error
        expected = None
        if index + 1 < len(lines) and lines[index + 1][1][0] in RESULTS:
            expected = lines[next(steps)][1]
        if not agrees(found, expected):
            wanted = " ".join(expected or ["no error"])
            return f"{number}: {' '.join(words)}: found {found!r:.300}, expected {wanted:.300}"
    session.close()
    return None


def read_cases(directory):
    cases = []
    for path in sorted(pathlib.Path(directory).glob("*.txt")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "case":
                cases.append((f"{path.name}: {words[1]}", set(), []))
            elif words[0] == "requires":
                cases[-1][1].update(words[1:])
            else:
                cases[-1][2].append((number, words))
    return cases


def main():
    cases = read_cases(os.environ["TERRACE_CONFORMANCE"])
    failed = skipped = 0
    available = FEATURES | ({"small-disk"} if SMALL_DISK else set())
    for name, features, lines in cases:
        if features - available:
            skipped += 1
            if "small-disk" in features:
                print(f"NOT TESTED: {name}: no small disk")
            continue
        base = SMALL_DISK if "small-disk" in features else None
        with tempfile.TemporaryDirectory(dir=base) as directory:
            failure = run_case(lines, os.path.join(directory, "database"))
        if failure:
            failed += 1
            print(f"{name}:{failure}")
    if failed:
        sys.exit(f"{failed} of {len(cases)} cases failed")
    print(f"{len(cases)} cases, {skipped} skipped")


main()
