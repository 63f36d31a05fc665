"""Calls that plyvel does not have."""

import os

import pytest

import terrace


def fill(db, keys):
    for key in keys:
        db.put(key, key.upper())


def test_get_many(db):
    fill(db, [b"a", b"c"])
    assert db.get_many([b"c", b"x", b"a", b"c"]) == [b"C", None, b"A", b"C"]
    assert db.get_many(iter([b"x"]), b"-") == [b"-"]
    assert db.get_many([]) == []
    with pytest.raises(TypeError):
        db.get_many(["a"])
    with pytest.raises(TypeError):
        db.get_many(7)


def test_take(db):
    fill(db, [b"%03d" % number for number in range(500)])
    iterator = db.iterator(include_value=False)
    assert iterator.take(2) == [b"000", b"001"]
    assert iterator.take(0) == []
    assert len(iterator.take(1000)) == 498
    assert iterator.take(1) == []
    assert db.iterator(reverse=True).take(1) == [(b"499", b"499")]
    with pytest.raises(OverflowError):
        iterator.take(-1)


def test_delete_range(db):
    fill(db, [b"a", b"b", b"c", b"d"])
    db.delete_range(b"b", b"d")
    assert list(db.iterator(include_value=False)) == [b"a", b"d"]
    db.delete_range(b"b")
    assert list(db.iterator(include_value=False)) == [b"a"]
    db.delete_range()
    assert list(db) == []


def test_read_only(path):
    with terrace.DB(path, create_if_missing=True) as db:
        db.put(b"a", b"1")
    before = sorted((file.name, file.stat().st_mtime_ns) for file in path.iterdir())
    with terrace.DB(path, read_only=True) as first, terrace.DB(path, read_only=True) as second:
        assert first.get(b"a") == second.get(b"a") == b"1"
        with pytest.raises(terrace.NotSupportedError):
            first.put(b"a", b"2")
        with pytest.raises(terrace.LockedError):
            terrace.DB(path)
    assert before == sorted((file.name, file.stat().st_mtime_ns) for file in path.iterdir())


@pytest.mark.parametrize("name", ["text", b"bytes", "ünï"])
def test_names(tmp_path, name):
    full = os.path.join(os.fsencode(tmp_path), name) if isinstance(name, bytes) else str(tmp_path / name)
    with terrace.DB(full, create_if_missing=True) as db:
        assert db.name == full
        assert repr(full) in repr(db)
    terrace.destroy_db(full)
    assert not os.path.exists(full)


def test_memory_budget_and_compression(path):
    with terrace.DB(path, create_if_missing=True, memory_budget=8 << 20, compression="zstd") as db:
        for number in range(2000):
            db.put(b"%06d" % number, b"value " * 100)
        db.compact_range()
        stats = db.stats()
        assert stats["memory"]["limit"] == 8 << 20
        assert stats["last_sequence"] == 2000
        assert sum(level["files"] for level in stats["levels"]) >= 1
        # 1.2 MB of repetitions.
        assert sum(level["bytes"] for level in stats["levels"]) < 100_000
        assert stats["timers"]["flushes"]["count"] >= 1
        assert stats["writes_refused"] is None
    with terrace.DB(path) as db:
        assert db.get(b"001999") == b"value " * 100


def test_verify_and_repair(path):
    with terrace.DB(path, create_if_missing=True) as db:
        fill(db, [b"%04d" % number for number in range(1000)])
        db.compact_range()
        with pytest.raises(terrace.LockedError):
            terrace.verify_db(path)
    report = terrace.verify_db(path)
    assert report["is_clean"] and report["keys"] == 1000
    table = next(path.glob("*.ldb"))
    content = bytearray(table.read_bytes())
    content[10] ^= 0xFF
    table.write_bytes(content)
    report = terrace.verify_db(path)
    assert not report["is_clean"] and table.name in report["problems"][0]
    plan = terrace.repair_db(path, dry_run=True)
    assert plan["changed"] and plan["blocks_lost"] >= 1
    assert not terrace.verify_db(path)["is_clean"], "a dry run changes nothing"
    assert terrace.repair_db(path)["changed"]
    assert terrace.verify_db(path)["is_clean"]
    with terrace.DB(path) as db:
        assert db.get(b"0999") == b"0999"


def test_view(db):
    view = db.view()
    view[b"b"] = b"2"
    view.update({b"a": b"1", b"c": b"3"})
    assert list(view) == [b"a", b"b", b"c"] and list(reversed(view)) == [b"c", b"b", b"a"]
    assert len(view) == 3 and b"b" in view and b"x" not in view and 7 not in view
    assert view[b"a"] == b"1" and view.get(b"x") is None
    with pytest.raises(KeyError):
        view[b"x"]
    with pytest.raises(KeyError):
        del view[b"x"]
    assert list(view.items(start=b"b")) == [(b"b", b"2"), (b"c", b"3")]
    assert list(view.items(stop=b"b")) == [(b"a", b"1")]
    assert list(view.keys(prefix=b"c")) == [b"c"] and len(view.keys(start=b"b")) == 2
    assert b"a" in view.keys() and b"a" not in view.keys(start=b"b")
    assert (b"a", b"1") in view.items() and (b"a", b"2") not in view.items()
    assert list(reversed(view.values())) == [b"3", b"2", b"1"] and b"3" in view.values()
    assert view.pop(b"a") == b"1" and dict(view) == {b"b": b"2", b"c": b"3"}
    assert view.keys() & {b"b", b"x"} == {b"b"}
    view.clear()
    assert not view


def test_transaction(db):
    db.put(b"a", b"1")
    with db.begin() as transaction:
        transaction.put(b"b", b"2")
        transaction.delete(b"a")
        assert transaction.get(b"a") is None and transaction.get(b"b") == b"2"
        assert transaction.entries() == [(b"b", b"2")]
        assert db.get(b"b") is None
    assert list(db) == [(b"b", b"2")]
    with pytest.raises(ZeroDivisionError), db.begin() as transaction:
        transaction.put(b"c", b"3")
        1 / 0
    assert db.get(b"c") is None
    with pytest.raises(terrace.ClosedError):
        transaction.put(b"c", b"3")


def test_transaction_that_ends_early(db):
    """The end of the block, and that of `transact`, raised a ClosedError."""
    with db.begin() as transaction:
        transaction.put(b"a", b"1")
        transaction.rollback()
    assert db.get(b"a") is None
    with db.begin() as transaction:
        transaction.put(b"b", b"2")
        transaction.commit()
    assert db.get(b"b") == b"2"

    def give_up(transaction):
        transaction.put(b"c", b"3")
        transaction.rollback()
        return "given up"

    assert db.transact(give_up) == "given up" and db.get(b"c") is None
    with pytest.raises(terrace.ClosedError):
        with db.begin() as transaction:
            db.close()


def test_transaction_conflict(db):
    db.put(b"n", b"0")
    first, second = db.begin(), db.begin()
    for transaction in first, second:
        transaction.put(b"n", b"%d" % (int(transaction.get(b"n")) + 1))
    first.commit()
    with pytest.raises(terrace.ConflictError, match="conflict"):
        second.commit()
    attempts = []

    def increment(transaction):
        value = int(transaction.get_for_update(b"n"))
        attempts.append(value)
        if len(attempts) == 1:
            db.put(b"n", b"10")
        transaction.put(b"n", b"%d" % (value + 1))
        return value

    assert db.transact(increment) == 10
    assert attempts == [1, 10] and db.get(b"n") == b"11"


def test_transaction_lock_timeout(db):
    first = db.begin(locking=True)
    first.put(b"a", b"1")
    second = db.begin(locking=True, lock_timeout=0.01)
    with pytest.raises(terrace.ConflictError, match="lock timeout"):
        second.put(b"a", b"2")
    with pytest.raises(ValueError):
        db.begin(lock_timeout=-1)
    first.commit()


def test_checkpoint(db, tmp_path):
    db.put(b"a", b"1")
    db.checkpoint(tmp_path / "copy")
    db.put(b"a", b"2")
    with terrace.DB(tmp_path / "copy") as copy:
        assert copy.get(b"a") == b"1"
    with pytest.raises(terrace.Error):
        db.checkpoint(tmp_path / "copy")


def test_follower(db, path):
    db.put(b"a", b"1")
    with terrace.DB(path, follow=True, follow_every=0) as follower:
        assert follower.get(b"a") == b"1"
        db.put(b"a", b"2")
        follower.catch_up()
        assert follower.get(b"a") == b"2"
        with pytest.raises(terrace.NotSupportedError):
            follower.put(b"a", b"3")
    with pytest.raises(ValueError):
        terrace.DB(path, follow_every=1)




def test_empty_reverse_range_of_one_key(db):
    """Plyvel returns nothing for a reverse range whose last entry is its start."""
    db.put(b"a", b"1")
    assert list(db.iterator(start=b"a", reverse=True)) == [(b"a", b"1")]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("include_start", [False, True])
@pytest.mark.parametrize("include_stop", [False, True])
@pytest.mark.parametrize("custom", [False, True])
def test_bounds_agree_with_a_list(tmp_path, reverse, include_start, include_stop, custom):
    order = {"comparator": lambda a, b: (a > b) - (a < b), "comparator_name": b"same"} if custom else {}
    keys = [b"%02d" % number for number in range(0, 40, 2)]
    with terrace.DB(tmp_path / "db", create_if_missing=True, **order) as db:
        fill(db, keys)
        for start in None, b"00", b"03", b"10", b"38", b"99":
            for stop in None, b"00", b"09", b"10", b"38", b"99":
                found = db.iterator(
                    start=start,
                    stop=stop,
                    include_start=include_start,
                    include_stop=include_stop,
                    include_value=False,
                    reverse=reverse,
                )
                expected = [
                    key
                    for key in keys
                    if (start is None or key > start or (include_start and key == start))
                    and (stop is None or key < stop or (include_stop and key == stop))
                ]
                assert list(found) == (expected[::-1] if reverse else expected)


def test_random_steps_agree_with_a_list(db):
    import random

    generator = random.Random(7)
    keys = [b"%05d" % number for number in range(2000)]
    fill(db, keys)
    for _ in range(30):
        start, stop = sorted(generator.sample(range(2000), 2))
        iterator = db.iterator(start=keys[start], stop=keys[stop], include_value=False)
        gap = start
        for _ in range(300):
            action = generator.randrange(12)
            if action == 0:
                iterator.seek_to_start()
                gap = start
            elif action == 1:
                iterator.seek_to_stop()
                gap = stop
            elif action == 2:
                target = generator.randrange(2000)
                iterator.seek(keys[target])
                gap = min(max(target, start), stop)
            else:
                is_next, count = action < 8, generator.choice([1, 1, 1, 7, 300])
                for _ in range(count):
                    try:
                        found = next(iterator) if is_next else iterator.prev()
                    except StopIteration:
                        assert gap == (stop if is_next else start)
                        break
                    assert found == keys[gap if is_next else gap - 1]
                    gap += 1 if is_next else -1
