"""redis-py: strings, pipelines, WATCH, types, locks (scripts), channels, in both protocol versions."""
import sys

import redis


def check(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def strings(client):
    check(client.set("a", 1, ex=100, nx=True), True)
    check(client.set("a", 1, nx=True), None)
    check(client.incr("a"), 2)
    assert 98 <= client.ttl("a") <= 100
    check(sorted(client.scan_iter("*")), ["a"])


def transactions(client):
    with client.pipeline() as pipe:
        pipe.watch("a")
        pipe.multi()
        pipe.set("b", "x").get("b").mget("a", "missing")
        check(pipe.execute(), [True, "x", ["2", None]])
        pipe.watch("a")
        client.set("a", 9)
        pipe.multi()
        pipe.set("b", "y")
        try:
            pipe.execute()
        except redis.WatchError:
            return
        raise SystemExit("the watch was not noticed")


def types(client):
    check(client.hset("h", mapping={"f": 1, "g": "two"}), 2)
    check(client.hgetall("h"), {"f": "1", "g": "two"})
    check(client.rpush("l", "a", "b", "c"), 3)
    check(client.lrange("l", 0, -1), ["a", "b", "c"])
    check(client.blpop("l", timeout=1), ["l", "a"] if client.protocol == 3 else ("l", "a"))
    check(client.sadd("s", 1, 2, 3), 3)
    check(client.smembers("s"), {"1", "2", "3"})
    check(client.zadd("z", {"one": 1, "two": 2.5}), 2)
    pairs = client.zrange("z", 0, -1, withscores=True)
    check([tuple(pair) for pair in pairs], [("one", 1.0), ("two", 2.5)])
    entry = client.xadd("x", {"f": "v"})
    check(client.xlen("x"), 1)
    assert entry in str(client.xread({"x": "0"}))


def locks(client):
    with client.lock("lock", timeout=5, blocking_timeout=1):
        check(client.lock("lock", timeout=5).acquire(blocking=False), False)
    check(client.exists("lock"), 0)
    double = client.register_script("return {KEYS[1], ARGV[1] * 2}")
    check(double(keys=["k"], args=[21]), ["k", 42])


def channels(client):
    channel = client.pubsub()
    channel.subscribe("news")
    check(channel.get_message(timeout=5)["type"], "subscribe")
    check(client.publish("news", "hello"), 1)
    check(channel.get_message(timeout=5)["data"], "hello")
    channel.close()


def server(client):
    assert client.config_get("appendfsync")["appendfsync"] in ("always", "everysec", "no")
    assert client.info()["redis_version"].startswith("7.0")
    assert any(row["db"] in ("0", 0) for row in client.client_list())


parts = [strings, transactions, channels, server]
if sys.argv[2] != "basic":
    parts += [types, locks]
for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    client.protocol = protocol
    client.flushall()
    for part in parts:
        part(client)
print("done")
