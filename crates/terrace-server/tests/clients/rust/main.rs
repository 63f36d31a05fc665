//! The crate `redis`: strings, pipelines, optimistic transactions, types, scripts, channels.

use std::collections::HashMap;

use redis::{Commands, Connection, RedisResult, Script};

fn transactions(connection: &mut Connection) -> RedisResult<()> {
    let (next,): (i64,) = redis::transaction(connection, &["a"], |connection, pipe| {
        let a: i64 = connection.get("a")?;
        pipe.set("a", a + 1).ignore().get("a").query(connection)
    })?;
    assert_eq!(next, 2);
    Ok(())
}

fn types(connection: &mut Connection) -> RedisResult<()> {
    let _: () = connection.hset_multiple("h", &[("f", 1), ("g", 2)])?;
    let fields: HashMap<String, i64> = connection.hgetall("h")?;
    assert_eq!(fields, HashMap::from([("f".into(), 1), ("g".into(), 2)]));
    let _: () = connection.rpush("l", &["x", "y"])?;
    let popped: (String, String) = connection.blpop("l", 1.0)?;
    assert_eq!(popped, ("l".into(), "x".into()));
    let _: () = connection.sadd("s", "m")?;
    let _: () = connection.zadd("z", "m", 1.5)?;
    let scores: Vec<(String, f64)> = connection.zrange_withscores("z", 0, -1)?;
    assert_eq!(scores, [("m".into(), 1.5)]);
    let _: String = connection.xadd("x", "*", &[("f", "v")])?;
    let len: usize = connection.xlen("x")?;
    assert_eq!(len, 1);
    let keys: Vec<String> = connection.scan_match("?")?.collect();
    assert_eq!(keys.len(), 6);
    Ok(())
}

fn channels(client: &redis::Client, connection: &mut Connection) -> RedisResult<()> {
    let mut subscriber = client.get_connection()?;
    let mut channel = subscriber.as_pubsub();
    channel.subscribe("news")?;
    let receivers: usize = connection.publish("news", "hello")?;
    assert_eq!(receivers, 1);
    assert_eq!(channel.get_message()?.get_payload::<String>()?, "hello");
    Ok(())
}

fn main() -> RedisResult<()> {
    let port = std::env::args().nth(1).expect("a port");
    for protocol in ["", "?protocol=resp3"] {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/{protocol}"))?;
        let mut connection = client.get_connection()?;
        let _: () = redis::cmd("FLUSHALL").query(&mut connection)?;
        let _: () = connection.set_ex("a", 1, 100)?;
        transactions(&mut connection)?;
        types(&mut connection)?;
        let double: i64 =
            Script::new("return redis.call('GET', KEYS[1]) * 2").key("a").invoke(&mut connection)?;
        assert_eq!(double, 4);
        if protocol.is_empty() {
            channels(&client, &mut connection)?;
        }
    }
    println!("done");
    Ok(())
}
