"""Writes or prints a database with the LevelDB of games, from the Python package amulet-leveldb."""

import sys

import leveldb

command, directory = sys.argv[1:]
db = leveldb.LevelDB(directory, command == "write")
if command == "write":
    for line in sys.stdin.buffer:
        key, value = line.rstrip(b"\n").split(b"\t")
        db.put(key, value)
    # Two tables at least, so that a compaction has something to do.
    db.compact()
    db.put(b"zz last", b"one more entry")
    db.compact()
else:
    for key, value in db.items():
        sys.stdout.buffer.write(key + b"\t" + value + b"\n")
db.close()
