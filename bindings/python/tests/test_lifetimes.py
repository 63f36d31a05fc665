"""Threads, forks, closed and forgotten objects, and ends of processes."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import resident_bytes

import terrace

SECONDS_OF_THREADS = float(os.environ.get("TERRACE_THREAD_SECONDS", "2"))


def test_close_while_threads_use_the_database(path):
    """Each thread ends with the error of a closed database, and all its earlier writes exist."""
    db = terrace.DB(path, create_if_missing=True)
    db.put(b"shared", b"0")
    unexpected, written, is_closing = [], {}, threading.Event()

    def write(name):
        number = 0
        while True:
            if number % 3:
                db.put(b"%s/%08d" % (name, number), b"v" * 100)
            else:
                with db.write_batch() as batch:
                    batch.put(b"%s/%08d" % (name, number), b"v" * 100)
            written[name] = number
            number += 1

    def read(name):
        while True:
            assert db.get(b"shared") == b"0"
            with db.snapshot() as snapshot:
                assert snapshot.get(b"shared") == b"0"
            for key, value in db.iterator(prefix=b"w0/"):
                assert len(key) == 11 and len(value) == 100
            db.transact(lambda transaction: transaction.get(b"shared"))

    def guarded(work, name):
        try:
            work(name)
        except terrace.ClosedError:
            if not is_closing.is_set():
                unexpected.append((name, "closed too early"))
        except BaseException as error:
            unexpected.append((name, error))

    threads = [threading.Thread(target=guarded, args=(write, b"w%d" % number)) for number in range(2)]
    threads += [threading.Thread(target=guarded, args=(read, b"r%d" % number)) for number in range(2)]
    for thread in threads:
        thread.start()
    threading.Event().wait(SECONDS_OF_THREADS)
    is_closing.set()
    db.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert unexpected == []
    assert min(written.values()) > 10
    with terrace.DB(path) as again:
        for name, last in written.items():
            keys = list(again.iterator(prefix=name + b"/", include_value=False))
            assert keys[: last + 1] == [b"%s/%08d" % (name, number) for number in range(last + 1)]
            assert len(keys) <= last + 2, "one write may have been under way"


def test_close_during_writes(path):
    """Each write either succeeds or fails as a call on a closed database."""
    for _ in range(30):
        db = terrace.DB(path, create_if_missing=True)
        failures = []

        def write():
            try:
                while True:
                    db.put(b"a", b"1")
                    with db.write_batch() as batch:
                        batch.put(b"a", b"2")
            except Exception as error:
                failures.append(type(error))

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        threading.Event().wait(0.005)
        db.close()
        for thread in threads:
            thread.join()
        assert failures == [terrace.ClosedError] * 3


def test_close_ends_everything(path):
    db = terrace.DB(path, create_if_missing=True)
    for number in range(1000):
        db.put(b"%04d" % number, b"")
    iterators = [db.iterator() for _ in range(5000)] + [db.raw_iterator() for _ in range(5000)]
    next(iterators[0])
    snapshot, batch, transaction, prefixed = db.snapshot(), db.write_batch(), db.begin(), db.prefixed_db(b"0")
    batch.put(b"x", b"")
    db.close()
    db.close()
    assert db.closed
    calls = [
        lambda: next(iterators[0]),
        lambda: iterators[1].prev(),
        lambda: iterators[-1].seek_to_first(),
        lambda: snapshot.get(b"0000"),
        snapshot.iterator,
        batch.write,
        lambda: batch.put(b"y", b""),
        lambda: transaction.get(b"0000"),
        transaction.commit,
        lambda: prefixed.get(b"000"),
        prefixed.iterator,
        db.iterator,
        db.raw_iterator,
        db.snapshot,
        db.write_batch,
        db.begin,
        db.flush,
        db.stats,
        lambda: db.get_many([b"a"]),
        lambda: db.approximate_size(b"a", b"b"),
        lambda: len(db.view()),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="closed"):
            call()
    snapshot.close()
    iterators[0].close()
    with terrace.DB(path) as again:
        assert again.get(b"x") is None


def test_forgotten_objects_free_their_memory(db):
    """100,000 iterators, snapshots, batches and transactions are opened, used and forgotten."""
    for number in range(100):
        db.put(b"%03d" % number, b"v" * 100)

    def forget(count):
        for _ in range(count):
            iterator = db.iterator()
            next(iterator)
            db.raw_iterator().seek_to_first()
            db.snapshot().get(b"050")
            db.write_batch().put(b"x", b"y" * 100)
            db.begin().get(b"001")
        gc.collect()

    forget(4_000)
    before = resident_bytes()
    forget(16_000)
    grown = resident_bytes() - before
    assert grown < 4 << 20, f"{grown} bytes after 80,000 more objects"


def test_forgotten_databases_close(tmp_path):
    def open_and_forget(count):
        for number in range(count):
            db = terrace.DB(tmp_path / str(number % 10), create_if_missing=True)
            db.put(b"a", b"1")
            iterator = db.iterator()
            del db
            assert next(iterator) == (b"a", b"1")

    open_and_forget(50)
    before, descriptors = resident_bytes(), len(os.listdir("/proc/self/fd"))
    open_and_forget(200)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert resident_bytes() - before < 16 << 20


def test_exit_without_close(path, run_python):
    """All writes exist after an exit, even beside a comparator in Python and open iterators."""
    program = """
        import sys, terrace
        def compare(a, b):
            return (a > b) - (a < b)
        db = terrace.DB(sys.argv[1], create_if_missing=True, write_buffer_size=65536,
                        comparator=compare, comparator_name=b"test")
        for number in range(3000):
            db.put(b"%06d" % number, b"v" * 100)
        iterators = [db.iterator() for _ in range(10)]
        snapshot = db.snapshot()
        next(iterators[0])
        print("written")
    """
    completed = run_python(program, path)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "written\n", "")
    order = {"comparator": lambda a, b: (a > b) - (a < b), "comparator_name": b"test"}
    with terrace.DB(path, **order) as db:
        assert sum(1 for _ in db) == 3000


def test_exit_in_a_daemon_thread(path, run_python):
    program = """
        import sys, threading, terrace
        db = terrace.DB(sys.argv[1], create_if_missing=True)
        started = threading.Event()
        def write():
            number = 0
            while True:
                db.put(b"%08d" % number, b"v")
                number += 1
                started.set()
        threading.Thread(target=write, daemon=True).start()
        started.wait()
    """
    completed = run_python(program, path)
    # An exception in the thread would be printed there. If that meets the exit, Python aborts.
    assert (completed.returncode, completed.stderr) == (0, "")
    (log,) = path.glob("*.log")
    assert not log.read_bytes().endswith(bytes(64)), "the exit closed the database: no reserved space"
    with terrace.DB(path) as db:
        assert db.get(b"00000000") == b"v"


def test_removed_directory(path, run_python):
    """A program may delete the directory of an open database, as with plyvel."""
    program = """
        import shutil, sys, terrace
        closed, forgotten = (terrace.DB(sys.argv[1] + name, create_if_missing=True) for name in "ab")
        for db in closed, forgotten:
            db.put(b"a", b"1")
            shutil.rmtree(db.name)
        closed.close()
        keep = forgotten.iterator()
    """
    completed = run_python(program, path)
    assert (completed.returncode, completed.stderr) == (0, "")


def test_comparator_that_raises_ends_the_process(path, run_python):
    program = """
        import sys, terrace
        def compare(a, b):
            if b"bad" in (a, b):
                raise ValueError("no order for this key")
            return (a > b) - (a < b)
        db = terrace.DB(sys.argv[1], create_if_missing=True, comparator=compare, comparator_name=b"test")
        db.put(b"a", b"1")
        print(len(list(db)), flush=True)
        db.put(b"bad", b"2")
        print("not reached")
    """
    completed = run_python(program, path)
    assert completed.returncode == -signal.SIGABRT
    assert completed.stdout == "1\n"
    assert "no order for this key" in completed.stderr
    assert "the process ends to protect the data" in completed.stderr
    with pytest.raises(terrace.InvalidArgumentError, match="comparator test"):
        terrace.DB(path)
    order = {"comparator": lambda a, b: (a > b) - (a < b), "comparator_name": b"test"}
    with terrace.DB(path, **order) as db:
        assert db.get(b"a") == b"1"


def test_kill_under_load(path, tmp_path):
    """A ledger outside of the database names each write that has returned. None may be lost."""
    program = textwrap.dedent("""
        import os, sys, terrace
        db = terrace.DB(sys.argv[1], create_if_missing=True, write_buffer_size=65536)
        ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        number = int(sys.argv[3])
        while True:
            if number % 5 == 0:
                with db.write_batch(transaction=True) as batch:
                    batch.put(b"k%08d" % number, b"v%d" % number)
                    batch.put(b"twin%08d" % number, b"v%d" % number)
            else:
                db.put(b"k%08d" % number, b"v%d" % number)
            os.write(ledger, b"%d\\n" % number)
            number += 1
    """)
    script, ledger = tmp_path / "writer.py", tmp_path / "ledger"
    script.write_text(program)
    number = 0
    for _ in range(5):
        process = subprocess.Popen([sys.executable, script, path, ledger, str(number)])
        while not ledger.exists() or ledger.stat().st_size < 10 * (number + 2000):
            assert process.poll() is None
            if ledger.exists() and len(ledger.read_bytes().splitlines()) > number + 2000:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        number = int(ledger.read_bytes().splitlines()[-1]) + 1
        with terrace.DB(path) as db:
            values = dict(db)
        for written in range(number):
            assert values[b"k%08d" % written] == b"v%d" % written
            assert written % 5 or values[b"twin%08d" % written] == b"v%d" % written
    assert number > 10_000


def child_reads_and_exits(db, checks):
    """Runs `checks` in a forked child. Returns its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            checks(db)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_fork(db, path):
    """A child reads the state of the fork. Its writes and its end change nothing."""
    for number in range(1000):
        db.put(b"%04d" % number, b"v")
    iterator = db.iterator(include_value=False)
    next(iterator)

    def checks(db):
        assert db.get(b"0999") == b"v"
        assert next(iterator) == b"0001" and len(list(iterator)) == 998
        assert len(list(db)) == 1000
        with pytest.raises(terrace.Error):
            db.put(b"child", b"")
        db.close()

    assert child_reads_and_exits(db, checks) == 0
    db.put(b"parent", b"1")
    assert next(iterator) == b"0001"
    db.close()
    with terrace.DB(path) as again:
        assert again.get(b"parent") == b"1" and again.get(b"child") is None


def test_fork_beside_writers(db):
    db.put(b"shared", b"0")
    is_done = threading.Event()

    def write(name):
        number = 0
        while not is_done.is_set():
            db.put(b"%d/%06d" % (name, number), b"v" * 100)
            number += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            assert child_reads_and_exits(db, lambda db: (db.get(b"shared"), db.iterator().take(5))) == 0
    finally:
        is_done.set()
        for thread in threads:
            thread.join()


def length_in_child(db_path):
    with terrace.DB(db_path, read_only=True) as db:
        return sum(1 for _ in db)


def follow_in_child(db_path):
    with terrace.DB(db_path, follow=True) as db:
        return db.get(b"a")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(path, method):
    with terrace.DB(path, create_if_missing=True) as db:
        db.put(b"a", b"1")
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(follow_in_child, [path] * 4) == [b"1"] * 4
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(length_in_child, [path] * 4) == [1] * 4


def test_iterator_shared_by_threads(db):
    """Threads that share an iterator get each entry once."""
    for number in range(20_000):
        db.put(b"%06d" % number, b"")
    iterator, found = db.iterator(include_value=False), [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda keys: keys.extend(iterator), args=(keys,)) for keys in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sum(found, [])) == [b"%06d" % number for number in range(20_000)]


def test_comparator_with_threads(path):
    """Threads wait for no lock whose holder waits for the interpreter."""
    order = {"comparator": lambda a, b: (a > b) - (a < b), "comparator_name": b"test"}
    db = terrace.DB(path, create_if_missing=True, write_buffer_size=65536, **order)
    shared = db.iterator()

    def work(name):
        for number in range(800):
            db.put(b"%d/%06d" % (name, number), b"v" * 100)
            if number % 50 == 0:
                shared.seek(b"%d" % name)
                shared.take(10)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    db.close()


def test_finalizer_during_an_iteration(path):
    """The garbage collector may run within a step, and a finalizer may use or close everything."""

    class Owner:
        def __init__(self, work):
            self.work, self.cycle = work, self

        def __del__(self):
            self.work()

    db = terrace.DB(path, create_if_missing=True)
    for number in range(3000):
        db.put(b"%06d" % number, b"")
    iterator = db.iterator()
    threshold = gc.get_threshold()
    gc.set_threshold(5)
    try:
        steps = 0
        for _ in iterator:
            if steps < 200:
                Owner(lambda: next(iterator, None))
            elif steps == 300:
                Owner(db.close)
            steps += 1
    except terrace.ClosedError:
        assert db.closed
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert db.closed
    with pytest.raises(terrace.ClosedError):
        next(iterator)


def test_no_memory_for_large_values(path, run_python):
    """A value without memory is a MemoryError. It was a panic, and the abort of the process in an iterator."""
    program = """
        import pathlib, resource, sys, terrace
        db = terrace.DB(sys.argv[1], create_if_missing=True, write_buffer_size=1 << 20)
        db.put(b"a", b"1")
        db.put(b"large", bytes(256 << 20))
        db.put(b"z", b"2")
        iterator, raw, transaction = db.iterator(), db.raw_iterator(), db.begin()
        raw.seek(b"large")
        backward = db.iterator(reverse=True)
        assert next(iterator)[0] == b"a" and next(backward)[0] == b"z"
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), resource.RLIM_INFINITY))
        for call in (
            lambda: db.get(b"large"),
            lambda: db.get_many([b"a", b"large"]),
            lambda: db.snapshot().get(b"large"),
            lambda: transaction.get(b"large"),
            lambda: transaction.entries(),
            lambda: next(iterator),
            lambda: next(iterator),
            lambda: next(backward),
            lambda: list(db.iterator(start=b"b")),
            lambda: raw.value(),
            lambda: raw.item(),
        ):
            try:
                call()
                print("no error")
            except MemoryError:
                pass
        assert db.get(b"a") == b"1" and raw.key() == b"large" and iterator.prev() == (b"a", b"1")
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert [len(value) for _, value in iterator] == [1, 256 << 20, 1]
        assert [len(value) for _, value in backward] == [256 << 20, 1]
        db.close()
        print("done")
    """
    completed = run_python(program, path)
    assert (completed.stdout, completed.returncode) == ("done\n", 0), completed.stderr


def test_forgotten_iterators_of_a_comparator(path, run_python):
    """An iterator that dies waits for a compaction, which may wait for the comparator: no deadlock."""
    program = """
        import random, sys, threading
        import terrace
        compare = lambda a, b: (a > b) - (a < b)
        db = terrace.DB(sys.argv[1], create_if_missing=True, comparator=compare, comparator_name=b"c",
                        write_buffer_size=65536)
        def work(number):
            for i in range(1500):
                db.put(b"%d-%d" % (number, random.randrange(2000)), b"x" * 200)
                if i % 100 == 0:
                    list(db.iterator(start=b"%d-5" % number, stop=b"%d-6" % number))
                    db.snapshot()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        db.close()
        print("done")
    """
    for run in range(3):
        completed = run_python(program, f"{path}-{run}")
        assert (completed.stdout, completed.returncode) == ("done\n", 0), completed.stderr


def run_to_the_exit(program, *arguments):
    """Returns the exit code and the errors of a program."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return process.returncode, process.stderr


@pytest.mark.parametrize("call", ["db.put(b'a', b'1')", "db.get(b'a')", "next(iterator)", "raw.valid()"])
def test_call_of_a_finalizer_at_the_exit(path, call):
    """The first exception of a process aborted it here, because nothing can be imported any more."""
    program = f"""
    import builtins, sys, terrace

    class Finalized:
        def __del__(self):
            db, iterator, raw, stderr = self.used
            try:
                {call}
            except Exception as error:
                stderr.write(type(error).__name__)

    db = terrace.DB(sys.argv[1], create_if_missing=True)
    builtins.kept = Finalized()
    builtins.kept.itself = builtins.kept
    builtins.kept.used = db, db.iterator(), db.raw_iterator(), sys.stderr
    """
    assert run_to_the_exit(program, path) == (0, "ClosedError")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions refuse the import")
def test_exit_with_a_subinterpreter(path):
    """Python 3.11 ended the main thread in the close of the databases, and the process hung."""
    program = """
    import sys, _xxsubinterpreters

    code = [
        f"import sys; sys.path[:0] = {sys.path!r}; import terrace",
        f"db = terrace.DB({sys.argv[1]!r}, create_if_missing=True)",
        "db.put(b'a', b'1')",
        "iterator, raw, snapshot, transaction = iter(db), db.raw_iterator(), db.snapshot(), db.begin()",
        "assert next(iterator) == (b'a', b'1')",
    ]
    interpreter = _xxsubinterpreters.create()
    _xxsubinterpreters.run_string(interpreter, "\\n".join(code))
    """
    assert run_to_the_exit(program, path) == (0, "")
    with terrace.DB(path) as db:
        assert list(db) == [(b"a", b"1")]
