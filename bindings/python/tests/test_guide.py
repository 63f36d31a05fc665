"""Runs the blocks of Python in the guide and in the README, in order, each page as one program."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["docs/guide/python.md", "bindings/python/README.md"])
def test_page(page, run_python, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    completed = run_python("\n".join(blocks), cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout == "CH/Bern 46.95,7.45\nCH/Chur 46.85,9.53\n"
