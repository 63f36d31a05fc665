"""rq: a worker executes queued and scheduled jobs, and records the failed one."""
import datetime
import os
import sys

import redis
from rq import Queue, SimpleWorker
from rq.registry import FailedJobRegistry

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
connection = redis.Redis(port=int(sys.argv[1]))
connection.flushall()
queue = Queue(connection=connection)
first = queue.enqueue("rq_tasks.add", 1, 2)
second = queue.enqueue("rq_tasks.add", 3, 4, depends_on=first)
failed = queue.enqueue("rq_tasks.fail")
later = queue.enqueue_in(datetime.timedelta(seconds=1), "rq_tasks.add", 5, 6)
worker = SimpleWorker([queue], connection=connection)
worker.log.setLevel("CRITICAL")
worker.work(burst=True, logging_level="CRITICAL")
assert first.return_value() == 3, first.get_status()
assert second.return_value() == 7, second.get_status()
assert failed.id in FailedJobRegistry(queue=queue).get_job_ids()
assert later.get_status() == "scheduled"
print("done")
