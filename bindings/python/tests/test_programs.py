"""Programs of others that use plyvel: their databases in turns on stock LevelDB and on Terrace."""

import json
import os

import pytest

pytest.importorskip("plyvel", reason="no wheel of plyvel for this Python")

# The programs say `import plyvel`. This replaces the changed line.
PRELUDE = """
import importlib, json, os, sys, types
sys.path.append(os.environ["TERRACE_PROGRAMS"])
library, turn = sys.argv[1], int(sys.argv[2])
sys.modules["plyvel"] = importlib.import_module(library)
"""

# An object mapper: prefixed databases, and iterators in `with` statements.
LEVELORM = """
import levelorm, plyvel
from levelorm import fields
db = plyvel.DB("cities.db", create_if_missing=True)
class City(levelorm.db_base_model(db)):
    prefix = "city"
    name = fields.String(key=True)
    people = fields.Integer()
City("Bern", 100 + turn).save()
City("Chur%d" % turn, turn).save()
if turn == 2:
    City("Chur0", 0).delete()
assert City.get("Bern").people == 100 + turn and City.get("Wien") is None
print(json.dumps([[city.name, city.people] for city in City.iter(start="B", stop="D")]))
db.close()
"""

# The history index of a server for wallets: synced batches, prefixes, and a compaction of its own.
ELECTRUMX = """
import logging
logging.disable(logging.CRITICAL)
# Its package imports the whole server.
package = types.ModuleType("electrumx")
package.__path__ = [os.path.join(os.environ["TERRACE_PROGRAMS"], "electrumx")]
server = types.ModuleType("electrumx.server")
server.__path__ = [os.path.join(package.__path__[0], "server")]
sys.modules.update({"electrumx": package, "electrumx.server": server})
from electrumx.server.history import History
from electrumx.server.storage import db_class
history = History()
history.open_db(db_class("leveldb"), False, 10**6, False)
addresses = [bytes([number % 7, 0, number]) + bytes(8) for number in range(60)]
for block in range(5):
    first = 1000 * turn + 100 * block
    history.add_unflushed([[addresses[(first + n) % 60], addresses[n % 60]] for n in range(100)], first)
    history.flush()
if turn == 2:
    history.backup(addresses, 2450)
if turn == 3:
    history.comp_cursor = 0
    history.comp_flush_count = max(history.comp_flush_count, 1)
    while history.comp_cursor != -1:
        history._compact_history(10**6)
print(json.dumps([list(history.get_txnums(address, None)) for address in addresses]))
history.close_db()
"""


def run_turns(run_python, directory, program, libraries):
    """Runs the program once for each library, in one directory. Returns what it printed."""
    directory.mkdir()
    results = []
    for turn, library in enumerate(libraries):
        completed = run_python(PRELUDE + program, library, turn, cwd=directory)
        assert completed.returncode == 0, completed.stderr
        results.append(json.loads(completed.stdout))
    return results


@pytest.mark.skipif("TERRACE_PROGRAMS" not in os.environ, reason="bindings/python/check installs them")
@pytest.mark.parametrize("program", [LEVELORM, ELECTRUMX], ids=["levelorm", "electrumx"])
def test_program(run_python, tmp_path, program):
    stock = run_turns(run_python, tmp_path / "stock", program, ["plyvel"] * 6)
    mixed = run_turns(run_python, tmp_path / "mixed", program, ["terrace.plyvel", "plyvel"] * 3)
    own = run_turns(run_python, tmp_path / "own", program, ["terrace.plyvel"] * 6)
    assert stock == mixed == own
    assert len(str(stock[-1])) > 50
