"""Lets plyvel's suite run as root, whom file permissions do not bind."""

import os

import pytest

NOBODY = 65534


@pytest.fixture(autouse=True)
def unprivileged(request):
    """Runs the test of an unwritable directory as another user, who owns the directory."""
    if os.geteuid() != 0 or request.node.name != "test_open_read_only_dir":
        yield
        return
    os.chown(request.getfixturevalue("db_dir"), NOBODY, NOBODY)
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)
