"""Program for `mypy --strict`: each call has the type that its user expects."""

from pathlib import Path
from typing import assert_type

import terrace
import terrace.plyvel as plyvel


def program(path: Path) -> None:
    with terrace.DB(path, create_if_missing=True, compression="zstd") as db:
        db.put(b"a", bytearray(b"1"), sync=True)
        assert_type(db.get(b"a"), bytes | None)
        assert_type(db.get(b"a", b""), bytes)
        assert_type(db.get_many([b"a"], 0), list[bytes | int])
        for key, value in db.iterator(start=b"a", stop=b"b"):
            assert_type((key, value), tuple[bytes, bytes])
        for key in db.iterator(include_value=False):
            assert_type(key, bytes)
        assert_type(db.transact(lambda transaction: transaction.get(b"a")), bytes | None)
        assert_type(db.snapshot().iterator().take(3), list[tuple[bytes, bytes]])
        assert_type(db.view()[b"a"], bytes)
        assert_type(db.stats()["memory"]["limit"], int | None)
    try:
        plyvel.DB("missing")
    except plyvel.Error as error:
        print(error)
