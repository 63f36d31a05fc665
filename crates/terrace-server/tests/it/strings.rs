//! Strings and keys in both layouts.

use crate::server::{in_both_layouts, with_client};

#[test]
fn strings() {
    in_both_layouts(|client| {
        client.check(&[
            ("SET Bern 46.95", "OK"),
            ("GET Bern", "'46.95'"),
            ("GET Chur", "nil"),
            ("SET Bern x NX", "nil"),
            ("SET Bern x XX GET", "'46.95'"),
            ("SET Chur y XX", "nil"),
            ("SETNX Chur y", ":1"),
            ("SETNX Chur z", ":0"),
            ("GETSET Chur z", "'y'"),
            ("GETDEL Chur", "'z'"),
            ("GETDEL Chur", "nil"),
            ("APPEND Bern yz", ":3"),
            ("STRLEN Bern", ":3"),
            ("SETRANGE Bern 5 ab", ":7"),
            ("GET Bern", r"'xyz\x00\x00ab'"),
            ("GETRANGE Bern -2 -1", "'ab'"),
            ("SETRANGE Bern -1 a", "-ERR offset is out of range"),
            ("SET a", "-ERR wrong number of arguments for 'set' command"),
            ("SET a b c", "-ERR syntax error"),
            ("SET a b NX XX", "-ERR syntax error"),
        ]);
    });
}

#[test]
fn several_keys() {
    in_both_layouts(|client| {
        client.check(&[
            ("MSET a 1 b 2 a 3", "OK"),
            ("MGET a x b", "['3' nil '2']"),
            ("MSETNX c 1 a 2", ":0"),
            ("MSETNX c 1 d 2", ":1"),
            ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
            ("MSET a b c", "-ERR wrong number of arguments for 'mset' command"),
            ("EXISTS a a x", ":2"),
            ("DEL a a x", ":1"),
            ("UNLINK b c", ":2"),
            ("DBSIZE", ":1"),
            ("TOUCH d", ":1"),
            ("TYPE d", "string"),
            ("TYPE x", "none"),
        ]);
    });
}

#[test]
fn counters() {
    in_both_layouts(|client| {
        client.check(&[
            ("INCR n", ":1"),
            ("INCRBY n 9223372036854775806", ":9223372036854775807"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("DECR n", ":9223372036854775806"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
            ("SET n 01", "OK"),
            ("INCR n", "-ERR value is not an integer or out of range"),
            ("INCRBYFLOAT f 10.5", "'10.5'"),
            ("INCRBYFLOAT f 0.1", "'10.6'"),
            ("INCRBYFLOAT f 5.0e3", "'5010.60000000000000009'"),
            ("INCRBYFLOAT f x", "-ERR value is not a valid float"),
            ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
        ]);
    });
}

#[test]
fn renames_and_copies() {
    in_both_layouts(|client| {
        client.check(&[
            ("SET a 1", "OK"),
            ("RENAME a b", "OK"),
            ("RENAME a b", "-ERR no such key"),
            ("RENAME b b", "OK"),
            ("SET a 2", "OK"),
            ("RENAMENX a b", ":0"),
            ("RENAMENX a c", ":1"),
            ("COPY b c", ":0"),
            ("COPY b c REPLACE", ":1"),
            ("GET c", "'1'"),
            ("COPY b b", "-ERR source and destination objects are the same"),
            ("OBJECT ENCODING b", "'int'"),
            ("OBJECT REFCOUNT x", "nil"),
        ]);
    });
}

#[test]
fn scans() {
    in_both_layouts(|client| {
        for number in 100..125 {
            client.run(&format!("SET key:{number} {number}"));
        }
        client.check(&[
            ("SET other x", "OK"),
            ("KEYS key:10[12]", "['key:101' 'key:102']"),
            ("SCAN 0 COUNT 2 MATCH key:*", "['1' ['key:100' 'key:101']]"),
            ("SCAN 1 COUNT 2 MATCH key:*", "['2' ['key:102' 'key:103']]"),
            ("SCAN 0 MATCH o* TYPE string", "['0' ['other']]"),
            ("SCAN 0 TYPE hash COUNT 100", "['0' []]"),
            ("SCAN x", "-ERR invalid cursor"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("DBSIZE", ":26"),
        ]);
        assert!(client.run("SCAN 77").starts_with("-ERR the cursor was discarded"));
        assert!(client.run("RANDOMKEY").starts_with('\''));
    });
}

#[test]
fn commands_beyond_redis() {
    in_both_layouts(|client| {
        client.check(&[
            ("MSET CH/Bern 1 CH/Chur 2 FR/Lyon 3", "OK"),
            ("TERRACE.RANGE - +", "[nil ['CH/Bern' 'CH/Chur' 'FR/Lyon']]"),
            ("TERRACE.RANGE - + REV LIMIT 2 VALUES", "['CH/Chur' ['FR/Lyon' '3' 'CH/Chur' '2']]"),
            ("TERRACE.RANGE (CH/Bern [CH/Chur", "[nil ['CH/Chur']]"),
            ("TERRACE.RANGE a b", "-ERR min or max not valid string range item"),
            ("TERRACE.PREFIX CH/ LIMIT 1", "['CH/Bern' ['CH/Bern']]"),
            ("TERRACE.PREFIX CH/ AFTER CH/Bern", "[nil ['CH/Chur']]"),
            ("TERRACE.COUNT [CH/ (CI", ":2"),
            ("TERRACE.DELRANGE [CH/ (CI", "OK"),
            ("KEYS *", "['FR/Lyon']"),
            ("CAS FR/Lyon 4 5", ":0"),
            ("CAS FR/Lyon 3 5", ":1"),
            ("CAS x 3 5", ":-1"),
            ("CAD FR/Lyon 3", ":0"),
            ("CAD FR/Lyon 5", ":1"),
            ("DBSIZE", ":0"),
        ]);
        assert!(client.run("TERRACE.SIZE - +").starts_with(':'));
        assert!(client.run("TERRACE.STATS").contains("memory"));
        assert!(client.run("TERRACE.LEVELS").starts_with("[['level' :0 'files' "));
    });
}

#[test]
fn longest_common_subsequence() {
    with_client(|client| {
        client.check(&[
            ("MSET a ohmytext b mynewtext", "OK"),
            ("LCS a b", "'mytext'"),
            ("LCS a b LEN", ":6"),
            ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "['matches' [[[:4 :7] [:5 :8] :4]] 'len' :6]"),
            ("LCS a b IDX LEN", "-ERR If you want both the length and indexes, please just use IDX."),
        ]);
    });
}

#[test]
fn unsupported_and_unknown_commands() {
    with_client(|client| {
        client.check(&[
            ("FCALL f 0", "-ERR the command 'fcall' is not supported by Terrace"),
            ("HSET h", "-ERR wrong number of arguments for 'hset' command"),
            ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
            ("COMMAND COUNT", ":255"),
            ("COMMAND GETKEYS MSET a b c d", "['a' 'c']"),
        ]);
    });
}
