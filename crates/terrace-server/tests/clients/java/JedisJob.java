// Jedis: pool, pipelines, transactions, types, scripts, channels.

import java.util.*;
import java.util.concurrent.*;
import redis.clients.jedis.*;
import redis.clients.jedis.params.SetParams;

class JedisJob {
    static void check(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static void types(Jedis jedis) {
        check(jedis.hset("h", Map.of("f", "1", "g", "2")), 2L);
        check(jedis.hgetAll("h"), Map.of("f", "1", "g", "2"));
        check(jedis.rpush("l", "x", "y"), 2L);
        check(jedis.blpop(1, "l"), List.of("l", "x"));
        check(jedis.sadd("s", "m"), 1L);
        check(jedis.zadd("z", 1.5, "m"), 1L);
        check(jedis.zscore("z", "m"), 1.5);
        check(jedis.eval("return redis.call('GET', KEYS[1]) * 2", List.of("a"), List.of()), 4L);
    }

    static void transactions(Jedis jedis, Jedis other) {
        jedis.watch("a");
        Transaction transaction = jedis.multi();
        transaction.incr("a");
        check(transaction.exec(), List.of(2L));
        jedis.watch("a");
        other.set("a", "2");
        transaction = jedis.multi();
        transaction.incr("a");
        check(transaction.exec(), null);
    }

    static void channels(JedisPool pool) throws Exception {
        CompletableFuture<String> received = new CompletableFuture<>();
        CountDownLatch subscribed = new CountDownLatch(1);
        JedisPubSub subscriber = new JedisPubSub() {
            @Override public void onSubscribe(String channel, int count) { subscribed.countDown(); }
            @Override public void onMessage(String channel, String message) {
                received.complete(message);
                unsubscribe();
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis jedis = pool.getResource()) { jedis.subscribe(subscriber, "news"); }
        });
        thread.start();
        subscribed.await(10, TimeUnit.SECONDS);
        try (Jedis jedis = pool.getResource()) { check(jedis.publish("news", "hello"), 1L); }
        check(received.get(10, TimeUnit.SECONDS), "hello");
        thread.join();
    }

    public static void main(String[] args) throws Exception {
        try (JedisPool pool = new JedisPool("127.0.0.1", Integer.parseInt(args[0]));
             Jedis jedis = pool.getResource(); Jedis other = pool.getResource()) {
            jedis.flushAll();
            check(jedis.set("a", "1", SetParams.setParams().nx().ex(100)), "OK");
            Pipeline pipeline = jedis.pipelined();
            Response<String> a = pipeline.get("a");
            Response<Long> ttl = pipeline.ttl("a");
            pipeline.sync();
            check(a.get(), "1");
            check(ttl.get() > 90, true);
            transactions(jedis, other);
            types(jedis);
            channels(pool);
        }
        System.out.println("done");
    }
}
