"""Tasks of the Celery job. Broker and results are the server at the port in CLIENT_PORT."""
import os

from celery import Celery

url = f"redis://127.0.0.1:{os.environ['CLIENT_PORT']}/0"
app = Celery("celery_tasks", broker=url, backend=url)
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(a, b):
    return a + b


@app.task(bind=True, max_retries=2)
def fail_once(self):
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    return "after a retry"
