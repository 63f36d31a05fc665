"""Wrong types and values: each is an exception, and the database stays usable."""

import array
import os

import pytest

import terrace


@pytest.mark.parametrize("key", ["text", None, 7, bytearray(b"a"), memoryview(b"a"), [b"a"]])
def test_keys_are_bytes(db, key):
    prefixed, snapshot, batch = db.prefixed_db(b"p"), db.snapshot(), db.write_batch()
    calls = [
        db.get,
        db.delete,
        db.get_property,
        db.prefixed_db,
        snapshot.get,
        batch.delete,
        prefixed.get,
        prefixed.delete,
        db.iterator().seek,
        db.raw_iterator().seek,
        db.begin().get,
        db.begin().delete,
        lambda key: db.put(key, b""),
        lambda key: batch.put(key, b""),
        lambda key: prefixed.put(key, b""),
        lambda key: db.get_many([key]),
        lambda key: db.approximate_size(key, b"b"),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call(key)
    for name in "start", "stop", "prefix":
        if key is not None:
            with pytest.raises(TypeError):
                db.iterator(**{name: key})
    assert list(db) == []


@pytest.mark.parametrize("value", ["text", None, 7, [b"a"], object()])
def test_values_have_a_buffer(db, value):
    for put in db.put, db.write_batch().put, db.prefixed_db(b"p").put, db.begin().put:
        with pytest.raises(TypeError):
            put(b"a", value)
    assert db.get(b"a") is None


def test_buffers(db):
    values = [
        bytearray(b"abc"),
        memoryview(b"abcdef")[1:3],
        memoryview(b"abcdef")[::2],
        array.array("i", [1, 2, 3]),
        b"",
    ]
    for value in values:
        db.put(b"a", value)
        assert db.get(b"a") == memoryview(value).tobytes()


def test_unknown_and_contradictory_arguments(db, path):
    for call in (
        lambda: db.iterator(unknown=1),
        lambda: db.iterator(b"a"),
        lambda: db.iterator(prefix=b"a", start=b"a"),
        lambda: db.get(b"a", verify_checksums=1),
        lambda: db.put(b"a", b"", sync="yes"),
        lambda: terrace.DB(path, unknown=1),
        lambda: terrace.DB(),
        lambda: terrace.DB(7),
        lambda: terrace.DB(None),
        lambda: terrace.DB(path, compression=7),
        lambda: terrace.DB(path, memory_budget="1 GiB"),
        lambda: terrace.DB(path, read_only="yes"),
        lambda: terrace.repair_db(path, unknown=1),
        lambda: terrace.repair_db(path, create_if_missing=True),
        lambda: terrace.repair_db(path, error_if_exists=True),
        lambda: terrace.DB(path, comparator_name="text"),
        lambda: db.transact(7),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError):
        db.approximate_sizes((b"a", b"b", b"c"))
    db.put(b"a", b"1")
    assert db.get(b"a") == b"1"


def test_values_out_of_bounds(tmp_path):
    path = tmp_path / "other"
    for options in {"write_buffer_size": -1}, {"max_open_files": 2**80}, {"memory_budget": -5}:
        with pytest.raises(OverflowError):
            terrace.DB(path, create_if_missing=True, **options)
    for options in (
        {"compression": "lzma"},
        {"comparator": lambda a, b: 0, "comparator_name": b"\xff"},
        {"follow": True, "follow_every": float("nan")},
        {"follow": True, "follow_every": -1},
    ):
        with pytest.raises(ValueError):
            terrace.DB(path, create_if_missing=True, **options)
    with pytest.raises(ValueError):
        terrace.DB(str(path) + "\0")
    with pytest.raises(ValueError):
        terrace.DB("\ud800")
    assert not path.exists()
    # The engine takes the nearest bound.
    with terrace.DB(path, create_if_missing=True, block_size=0, max_file_size=0, write_buffer_size=0) as db:
        db.put(b"a", b"1")


def test_kinds_of_errors(path, tmp_path):
    with pytest.raises(terrace.InvalidArgumentError, match="create_if_missing"):
        terrace.DB(path)
    with terrace.DB(path, create_if_missing=True):
        with pytest.raises(terrace.LockedError) as caught:
            terrace.DB(path)
        assert isinstance(caught.value, (terrace.IOError, OSError, terrace.Error))
    with pytest.raises(terrace.InvalidArgumentError, match="error_if_exists"):
        terrace.DB(path, error_if_exists=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(terrace.Error):
        terrace.DB(tmp_path / "file" / "below", create_if_missing=True)
    with pytest.raises(terrace.Error):
        terrace.verify_db(tmp_path / "missing")
    for error in "Error", "IOError", "CorruptionError", "IteratorInvalidError":
        assert getattr(terrace, error) is getattr(__import__("terrace.plyvel").plyvel, error)


def test_raw_iterator_without_an_entry(db):
    iterator = db.raw_iterator()
    for call in iterator.next, iterator.prev, iterator.key, iterator.value, iterator.item:
        with pytest.raises(terrace.IteratorInvalidError):
            call()


def test_batch_without_a_refused_write(db):
    batch = db.write_batch()
    batch.put(b"a", b"1")
    # Its pages are never touched, so it takes no memory.
    large = bytes(1 << 32)
    for refused in lambda: batch.put(b"b", large), lambda: batch.delete(large):
        with pytest.raises(terrace.InvalidArgumentError, match="too large"):
            refused()
        assert len(batch) == 1
    batch.put(b"c", b"3")
    batch.delete(b"a")
    assert len(batch) == 3
    batch.write()
    assert list(db) == [(b"c", b"3")]


def test_batches(db):
    batch = db.write_batch()
    batch.append(batch)
    assert len(batch) == 0 and batch
    batch.put(b"a", b"1")
    batch.append(batch)
    assert len(batch) == 2
    batch.write()
    batch.write()
    assert list(db) == [(b"a", b"1")]
    with pytest.raises(TypeError):
        batch.append(None)
    with pytest.raises(TypeError):
        terrace.WriteBatch()


def test_large_values(db):
    value = os.urandom(1 << 20) * 64
    db.put(b"big", value)
    assert db.get(b"big") == value
    assert next(db.iterator()) == (b"big", value)
    assert db.get(b"b" * (1 << 20)) is None
