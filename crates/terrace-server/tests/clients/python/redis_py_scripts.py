"""redis-py: locks, registered scripts, a rate limiter, in both protocol versions."""

import os
import redis
for protocol in (2, 3):
    client = redis.Redis(port=int(os.environ["CLIENT_PORT"]), protocol=protocol, decode_responses=True)
    client.flushall()
    lock = client.lock("lock", timeout=10)
    assert lock.acquire(blocking=False)
    assert not client.lock("lock", timeout=10).acquire(blocking=False)
    assert lock.extend(20) and 20 < client.ttl("lock") <= 30 and lock.reacquire()
    lock.release()
    assert client.get("lock") is None
    try:
        lock.release()
        raise SystemExit("the lock was released twice")
    except redis.exceptions.LockError:
        pass
    add = client.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add(keys=["n"], args=[5]) == 5
    client.script_flush()
    assert add(keys=["n"], args=[5]) == 10
    with client.pipeline() as pipe:
        add(keys=["n"], args=[1], client=pipe)
        pipe.get("n")
        assert pipe.execute() == [11, "11"]
    # A rate limiter with a fixed window.
    limit = client.register_script("""
        local count = redis.call('INCR', KEYS[1])
        if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
        return {count <= tonumber(ARGV[1]) and 1 or 0, redis.call('PTTL', KEYS[1])}
    """)
    allowed = [limit(keys=["limit"], args=[3, 60000]) for _ in range(5)]
    assert [row[0] for row in allowed] == [1, 1, 1, 0, 0] and 0 < allowed[0][1] <= 60000
    try:
        client.eval("return redis.call('incr', 'lst', 'x')", 0)
        raise SystemExit("no error")
    except redis.exceptions.ResponseError as error:
        assert "Wrong number of args" in str(error)
    assert client.script_exists("0" * 40) == [False]
print("done")
