"""Writer or follower of a database that programs of several languages share: see bindings/mixed/README.md."""

import importlib
import os
import sys
import time

SLOTS, LIVE, RECORD = 16, 8, 9


def value(number):
    return b"%d " % number * (number * 37 % 200 + 1)


def entries_of(state):
    """The entries of a state, in key order."""
    entries = {b"k%02d" % (number % SLOTS): value(number) for number in range(max(1, state - LIVE + 1), state + 1)}
    if state > 0:
        entries[b"state"] = b"%d" % state
    return sorted(entries.items())


def read_state(db):
    """Reads all entries, and returns the number of their state."""
    entries = list(db)
    state = int(dict(entries).get(b"state", b"0"))
    assert entries == entries_of(state), f"no state {state}: {entries}"
    return state


def last_of(ledger):
    """Last number of the ledger, or 0."""
    if not os.path.exists(ledger):
        return 0
    with open(ledger, "rb") as file:
        end = file.seek(0, os.SEEK_END) // RECORD * RECORD
        if end == 0:
            return 0
        file.seek(end - RECORD)
        return int(file.read(RECORD))


def write(library, directory, seconds):
    module = importlib.import_module(library)
    db = module.DB(directory, create_if_missing=True, write_buffer_size=65536)
    state = read_state(db)
    assert state >= last_of(directory + ".ledger"), f"state {state} is older than the ledger"
    end = time.monotonic() + seconds
    with open(directory + ".ledger", "ab", buffering=0) as ledger:
        while time.monotonic() < end:
            state += 1
            with db.write_batch() as batch:
                batch.put(b"state", b"%d" % state)
                batch.put(b"k%02d" % (state % SLOTS), value(state))
                batch.delete(b"k%02d" % ((state + LIVE) % SLOTS))
            ledger.write(b"%08d\n" % state)
    db.close()


def follow(directory):
    import terrace

    db = terrace.DB(directory, follow=True, follow_every=0.01)
    reads, state, is_last = 0, 0, False
    while not is_last:
        is_last = os.path.exists(directory + ".stop")
        at_least = state
        if reads % 2 == 0 or is_last:
            at_least = max(state, last_of(directory + ".ledger"))
            db.catch_up()
        state = read_state(db)
        assert state >= at_least, f"state {state} is older than {at_least}"
        reads += 1
    print(reads, state)


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], float(sys.argv[4]))
else:
    follow(sys.argv[3])
