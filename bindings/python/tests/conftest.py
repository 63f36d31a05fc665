"""Fixtures of the own tests."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import terrace


@pytest.fixture
def path(tmp_path):
    """Path of a database that does not exist."""
    return tmp_path / "database"


@pytest.fixture
def db(path):
    """An empty database."""
    with terrace.DB(path, create_if_missing=True) as db:
        yield db


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in a process of its own, and returns the completed process."""

    def run(program, *arguments, **options):
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(program))
        command = [sys.executable, str(script), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)

    return run


def resident_bytes():
    """Memory of this process that is in use."""
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
