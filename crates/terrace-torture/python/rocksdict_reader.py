"""Reads a database with the RocksDB of the package rocksdict and prints its entries, for the attack `readers`.

    python3 rocksdict_reader.py DIR

Each entry is a key and a value, each after its length in four bytes, little-endian. RocksDB opens the database for
writing and converts it.
"""

import struct
import sys

import rocksdict


def main():
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    # RocksDB crashes in a compaction of several tables of LevelDB.
    options.set_disable_auto_compactions(True)
    database = rocksdict.Rdict(sys.argv[1], options)
    for entry in database.items():
        for part in entry:
            sys.stdout.buffer.write(struct.pack("<I", len(part)) + part)
    sys.stdout.buffer.flush()
    database.close()


if len(sys.argv) > 1:
    try:
        main()
    except Exception as error:
        sys.exit(str(error))
