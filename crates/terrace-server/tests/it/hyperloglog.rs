//! HyperLogLogs: the same bytes as those of redis-server.

use terrace::env::{Random, SeededRandom};

use crate::client::Client;
use crate::model::RedisServer;
use crate::server::with_client;

#[test]
fn same_bytes_as_redis() {
    let Some(redis) = RedisServer::start() else {
        eprintln!("NOT TESTED: redis-server 7.0 is not installed, so its values are not compared");
        return;
    };
    let random = SeededRandom::new(2503);
    with_client(|ours| {
        let theirs = &mut Client::connect(redis.address);
        let mut compare = |command: &[String]| {
            let expected = theirs.call(command);
            assert_eq!(ours.call(command), expected, "{command:?}");
        };
        for step in 0..1500u64 {
            let key = format!("key:{}", random.uniform(4));
            let count = if step % 50 == 0 { 300 } else { 3 };
            let mut add = vec!["PFADD".into(), key.clone()];
            add.extend((0..count).map(|_| format!("element {}", random.uniform(20_000))));
            compare(&add);
            compare(&["GET".into(), key.clone()]);
            if step % 3 == 0 {
                compare(&["PFCOUNT".into(), key.clone()]);
                compare(&["GET".into(), key]);
            }
            if step % 40 == 0 {
                let all = || (0..4).map(|index| format!("key:{index}"));
                compare(&["PFCOUNT".into()].into_iter().chain(all()).collect::<Vec<String>>());
                let merged = "merged".to_owned();
                let keys = all().take(1 + step as usize % 4);
                compare(&["PFMERGE".into(), merged.clone()].into_iter().chain(keys).collect::<Vec<String>>());
                compare(&["GET".into(), merged.clone()]);
                compare(&["DEL".into(), merged]);
            }
            if step % 400 == 399 {
                compare(&["DEL".into(), "key:0".into(), "key:1".into()]);
            }
        }
        // The change from the sparse to the dense form happens at the same element.
        for element in 0..1600 {
            compare(&["PFADD".into(), "edge".into(), format!("element {element}")]);
            compare(&["GET".into(), "edge".into()]);
        }
        // Damaged values.
        for value in ["HYLL", "no", "HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\x7f", "HYLL\0\0\0\0\0\0\0\0\0\0\0\0"]
        {
            compare(&["SET".into(), "bad".into(), value.into()]);
            for line in
                ["PFADD bad x", "PFCOUNT bad", "PFCOUNT bad key:3", "PFMERGE other bad", "PFMERGE bad key:3"]
            {
                compare(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
            }
        }
    });
}
