"""The same database in turns with plyvel on stock LevelDB, and both in one process."""

import builtins
import contextlib
import random

import pytest

import terrace
import terrace.plyvel

stock = pytest.importorskip("plyvel", reason="no wheel of plyvel for this Python")


def open_in_turn(turn, path):
    module = terrace if turn % 2 else stock
    return module.DB(str(path), create_if_missing=True, write_buffer_size=65536)


def test_alternate_writes(path):
    """Each opener sees what both have written, in the same order, and by all ways to read."""
    generator, model = random.Random(5), {}
    for turn in range(24):
        with open_in_turn(turn, path) as db:
            expected = sorted(model.items())
            assert list(db) == expected
            assert list(db.iterator(reverse=True)) == expected[::-1]
            for _ in range(400):
                key = b"%04d" % generator.randrange(1500)
                if generator.random() < 0.3:
                    db.delete(key)
                    model.pop(key, None)
                else:
                    model[key] = b"%d/%d " % (turn, generator.randrange(10**6)) * generator.randrange(1, 60)
                    db.put(key, model[key])
            with db.write_batch() as batch:
                for number in range(20):
                    batch.put(b"batch%02d" % number, b"%d" % turn)
                    model[b"batch%02d" % number] = b"%d" % turn
            if turn % 7 == 3:
                db.compact_range()
    with open_in_turn(1, path) as db:
        assert list(db) == sorted(model.items())
    assert terrace.verify_db(path)["is_clean"]


@pytest.mark.parametrize("first", [0, 1])
def test_one_opener_in_a_process(path, first):
    with open_in_turn(first, path) as db:
        db.put(b"a", b"1")
        with pytest.raises((terrace.IOError, stock.IOError)):
            open_in_turn(1 - first, path)
        db.put(b"b", b"2")
    with open_in_turn(1 - first, path) as db:
        assert list(db) == [(b"a", b"1"), (b"b", b"2")]


def test_same_results_of_random_calls(tmp_path):
    """Iterators of both libraries agree in each step: next, prev and seeks within bounds."""
    generator = random.Random(11)
    with open_in_turn(0, tmp_path / "stock") as other, open_in_turn(1, tmp_path / "terrace") as own:
        for _ in range(300):
            key = b"%03d" % generator.randrange(1000)
            other.put(key, key)
            own.put(key, key)
        for _ in range(200):
            start, stop = sorted(b"%03d" % generator.randrange(1000) for _ in range(2))
            bounds = {"start": start, "stop": stop, "include_stop": generator.random() < 0.5}
            pair = [db.iterator(**bounds) for db in (other, own)]
            pair[0].seek_to_start()
            for _ in range(30):
                step = generator.choice([next, next, next, lambda it: it.prev()])
                found = [one_step(step, iterator) for iterator in pair]
                assert found[0] == found[1], (bounds, found)


def one_step(step, iterator):
    try:
        return step(iterator)
    except StopIteration:
        return None


def damage_tables(path):
    """Overwrites the first block of each table."""
    for table in [*path.glob("*.ldb"), *path.glob("*.sst")]:
        content = table.read_bytes()
        table.write_bytes(b"\xff" * 1000 + content[1000:])


def read_until_error(iterator):
    """Returns the entries before the first error, and the name of that error."""
    entries = []
    try:
        for entry in iterator:
            entries.append(entry)
    except Exception as error:
        return entries, type(error).__name__
    return entries, None


@pytest.mark.parametrize("target", [None, b"0100", b"0480", b"0700"])
@pytest.mark.parametrize("reverse", [False, True])
def test_no_entry_after_damage(path, reverse, target):
    """An iterator fetches entries in chunks, and showed those after a damaged block."""
    with stock.DB(str(path), create_if_missing=True, compression=None) as db:
        for number in range(1000):
            db.put(b"%04d" % number, b"value %04d" % number * 10)
        db.compact_range()
    (table,) = path.glob("*.ldb")
    content = bytearray(table.read_bytes())
    content[content.index(b"value 0500")] ^= 1
    table.write_bytes(content)
    found = []
    for module in stock, terrace.plyvel:
        with module.DB(str(path)) as db:
            iterator = db.iterator(reverse=reverse, verify_checksums=True)
            if target:
                iterator.seek(target)
            found.append(read_until_error(iterator))
            assert read_until_error(iterator) == ([], found[-1][1])
    (expected, expected_error), (entries, error) = found
    # Plyvel loses the last entry before an error in reverse: it steps before it returns an entry.
    # If no entry follows, it hides the error.
    if reverse and expected_error:
        assert expected == entries[: len(expected)] and len(entries) <= len(expected) + 1
    else:
        assert entries == expected
    assert error == expected_error
    assert (error is None) == (bool(target) and (target > b"0500") != reverse)


def errors_of(module, path):
    """Kinds of the errors in each situation: the names of exceptions that plyvel has, too."""
    found = {}

    @contextlib.contextmanager
    def situation(name):
        try:
            yield
        except Exception as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            found[name] = next(kind for kind in names if hasattr(stock, kind) or hasattr(builtins, kind))

    with situation("missing"):
        module.DB(str(path))
    db = module.DB(str(path), create_if_missing=True)
    with situation("locked"):
        module.DB(str(path))
    with situation("destroy of an open database"):
        module.destroy_db(str(path))
    for number in range(1000):
        db.put(b"%04d" % number, b"value" * 10)
    with situation("type of a key"):
        db.get("text")
    with situation("type of a value"):
        db.put(b"key", 7)
    iterator, raw, batch, snapshot = db.iterator(), db.raw_iterator(), db.write_batch(), db.snapshot()
    with situation("raw iterator without a position"):
        raw.key()
    db.compact_range(start=b"0", stop=b"9")
    db.close()
    for name, call in {
        "get": lambda: db.get(b"key"),
        "put": lambda: db.put(b"key", b"value"),
        "iterator": lambda: next(iterator),
        "raw iterator": lambda: raw.seek_to_first(),
        "snapshot": lambda: snapshot.get(b"key"),
        "batch": lambda: batch.write(),
    }.items():
        with situation(f"{name} after the close"):
            call()
    with situation("existing"):
        module.DB(str(path), error_if_exists=True)
    with situation("comparator"):
        module.DB(str(path), comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"other")
    damage_tables(path)
    with module.DB(str(path)) as db:
        with situation("damaged table"):
            db.get(b"0000")
        with situation("scan of a damaged table"):
            list(db)
    (path / "CURRENT").unlink()
    with situation("no CURRENT"):
        module.DB(str(path))
    with situation("file instead of a directory"):
        module.DB(str(path / "LOG"), create_if_missing=True)
    return found


def test_same_errors(tmp_path):
    """Each error of plyvel has its class here, or a class below it."""
    expected = errors_of(stock, tmp_path / "stock")
    assert len(expected) >= 16, expected
    assert errors_of(terrace.plyvel, tmp_path / "terrace") == expected


@pytest.mark.parametrize(
    "options",
    [
        {"max_open_files": -1},
        {"bloom_filter_bits": -1},
        {"block_restart_interval": 2.5},
        {"lru_cache_size": 1e9, "write_buffer_size": 2e6, "block_size": 8192.0, "max_file_size": 4e6},
        {"bloom_filter_bits": 10.0, "max_open_files": 100.0},
    ],
)
def test_same_options(tmp_path, options):
    """Negative numbers and floats were a TypeError or an OverflowError here only."""
    for module in stock, terrace.plyvel:
        with module.DB(str(tmp_path / module.__name__), create_if_missing=True, **options) as db:
            db.put(b"a", b"1")
            assert list(db) == [(b"a", b"1")]
    for option in options:
        for value in "8", float("nan"), float("inf"), 2.0**80:
            for module in stock, terrace.plyvel:
                with pytest.raises((TypeError, ValueError, OverflowError)):
                    module.DB(str(tmp_path / "wrong"), create_if_missing=True, **{option: value})


def test_same_ranges(tmp_path):
    """A range is any pair of keys, not only a tuple."""
    for module in stock, terrace.plyvel:
        with module.DB(str(tmp_path / module.__name__), create_if_missing=True) as db:
            assert db.approximate_sizes((b"a", b"b"), [b"a", b"b"]) == [0, 0]
            for ranges in 1, ("a", "b"), b"ab", [b"a", 7]:
                with pytest.raises(TypeError):
                    db.approximate_sizes(ranges)
            for ranges in (), (b"a",), (b"a", b"b", b"c"), b"abc", iter([b"a"]):
                with pytest.raises(ValueError):
                    db.approximate_sizes(ranges)


def test_destroy_of_a_file(tmp_path):
    """A file is no database, and neither is a path below it. Nothing is removed."""
    file = tmp_path / "file"
    file.write_text("text")
    for module in stock, terrace.plyvel:
        module.destroy_db(str(file))
        module.destroy_db(str(file / "below"))
    assert file.read_text() == "text"


@pytest.mark.parametrize("option", ["create_if_missing", "error_if_exists"])
def test_same_options_of_repairs(tmp_path, option):
    for module in stock, terrace.plyvel:
        with pytest.raises(TypeError, match=option):
            module.repair_db(str(tmp_path / "missing"), **{option: True})
