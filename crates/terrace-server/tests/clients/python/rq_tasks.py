"""Tasks of the rq job."""


def add(a, b):
    return a + b


def fail():
    raise ValueError("on purpose")
