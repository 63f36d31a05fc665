"""Measures plyvel and Terrace: `python bench.py [ROUNDS]`.

Each round of each library runs in a process and a directory of its own. The figures are processor
time of the calling thread in ns for each operation, the medians of all rounds.
"""

import importlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time

COUNT = 100_000
LIBRARIES = ("plyvel", "terrace.plyvel")
ROWS = ("put", "batch of 100", "get", "iterate, pairs", "iterate, keys")


def measure(work):
    start = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - start) / COUNT


def run(library):
    """Returns the figures of one round."""
    module = importlib.import_module(library)
    generator = random.Random(1)
    keys = [b"%016d" % number for number in range(COUNT)]
    generator.shuffle(keys)
    pairs = [(key, generator.randbytes(100)) for key in keys]
    hundreds = [pairs[start : start + 100] for start in range(0, COUNT, 100)]
    with tempfile.TemporaryDirectory() as directory:
        puts = module.DB(directory + "/puts", create_if_missing=True)
        batches = module.DB(directory + "/batches", create_if_missing=True)

        def put():
            for key, value in pairs:
                puts.put(key, value)

        def put_batches():
            for hundred in hundreds:
                with batches.write_batch() as batch:
                    for key, value in hundred:
                        batch.put(key, value)

        def get():
            for key in keys:
                puts.get(key)

        def iterate_pairs():
            assert sum(1 for _ in puts) == COUNT

        def iterate_keys():
            assert sum(1 for _ in puts.iterator(include_value=False)) == COUNT

        figures = [measure(put), measure(put_batches)]
        generator.shuffle(keys)
        figures += [measure(work) for work in (get, iterate_pairs, iterate_keys)]
        puts.close()
        batches.close()
    return figures


def main():
    if len(sys.argv) > 1 and sys.argv[1] in LIBRARIES:
        print(json.dumps(run(sys.argv[1])))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    results = {library: [] for library in LIBRARIES}
    for _ in range(rounds):
        for library in LIBRARIES:
            output = subprocess.run([sys.executable, __file__, library], check=True, capture_output=True)
            results[library].append(json.loads(output.stdout))
    print("| | plyvel, LevelDB | Terrace | ratio |\n|---|---:|---:|---:|")
    for row, name in enumerate(ROWS):
        stock, own = (statistics.median(figures[row] for figures in results[library]) for library in LIBRARIES)
        print(f"| {name} | {stock:,.0f} | {own:,.0f} | {stock / own:.1f} |")


main()
