//! Corner cases whose replies differed from those of Redis 7.0. Every row was compared with
//! redis-server 7.0.15.

use crate::server::with_client;

/// XREADGROUP of the history replied `*-1` for a deleted entry also in version 3 of the protocol,
/// whose null is `_`.
#[test]
fn deleted_entry_in_version_3_of_the_protocol() {
    with_client(|client| {
        client.check(&[
            ("XADD x 1-1 f v", "'1-1'"),
            ("XGROUP CREATE x g 0", "OK"),
            ("XREADGROUP GROUP g c STREAMS x >", "[['x' [['1-1' ['f' 'v']]]]]"),
            ("XDEL x 1-1", ":1"),
        ]);
        client.run("HELLO 3");
        client.send_bytes(b"XREADGROUP GROUP g c STREAMS x 0\r\nQUIT\r\n");
        let expected = "%1\\r\\n$1\\r\\nx\\r\\n*1\\r\\n*2\\r\\n$3\\r\\n1-1\\r\\n_\\r\\n+OK\\r\\n";
        assert_eq!(client.rest(), expected);
    });
}
