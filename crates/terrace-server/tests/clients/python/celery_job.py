"""Celery 5: a worker executes tasks, chains, groups, chords and a retry; the results come back."""
import os
import subprocess
import sys

os.environ["CLIENT_PORT"] = sys.argv[1]
from celery import chain, chord, group
from celery_tasks import add, app, fail_once

app.backend.client.flushall()
worker = subprocess.Popen(
    [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--pool", "threads", "--concurrency", "2",
     "--loglevel", "error", "--without-gossip"],
    cwd=os.path.dirname(os.path.abspath(__file__)),
)
try:
    assert add.delay(1, 2).get(timeout=30) == 3
    assert chain(add.s(1, 2), add.s(3))().get(timeout=30) == 6
    assert group(add.s(n, n) for n in range(5))().get(timeout=30) == [0, 2, 4, 6, 8]
    assert chord([add.s(1, 1), add.s(2, 2)])(app.tasks["celery_tasks.add"].s([0])).get(timeout=30) == [2, 4, 0]
    assert fail_once.delay().get(timeout=30) == "after a retry"
    assert app.control.ping(timeout=5), "no worker answers"
finally:
    worker.terminate()
    worker.wait(30)
print("done")
