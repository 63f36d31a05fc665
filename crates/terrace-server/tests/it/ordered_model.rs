//! Random commands of lists, sorted sets and geo, for this server and for redis-server. Both give
//! the same replies.
//!
//! Our server is killed and started again in between. The variables `TERRACE_MODEL_SEED` and
//! `TERRACE_MODEL_STEPS` choose another run. Elements, ties of scores and all orders are defined.
//! Therefore the replies are equal byte by byte.

use terrace::env::{Random, SeededRandom};
use terrace_server::Layout;

use crate::model::{Place, beside_redis};

/// Commands as words. `$` begins a random argument, `?` one of several words or none, `!` one of
/// several words.
pub(crate) static LISTS: &[&str] = &[
    "LPUSH $list $value",
    "RPUSH $list $value $value $value",
    "RPUSH $list $values",
    "LPUSHX $list $value",
    "RPUSHX $list $value $value",
    "LPOP $list",
    "RPOP $list",
    "LPOP $list $integer",
    "RPOP $list $integer",
    "LPOP $list 1 2",
    "LLEN $list",
    "LINDEX $list $integer",
    "LSET $list $integer $value",
    "LRANGE $list $integer $integer",
    "LRANGE $list 0 -1",
    "LTRIM $list $integer $integer",
    "LTRIM $list 1 -2",
    "LREM $list $integer $value",
    "LINSERT $list !BEFORE|AFTER|OTHER $value $value",
    "LPOS $list $value ?RANK $integer",
    "LPOS $list $value RANK !1|-1|2|-2|0 COUNT $integer MAXLEN $integer",
    "LMOVE $list $list !LEFT|RIGHT !LEFT|RIGHT|x",
    "RPOPLPUSH $list $list",
    "LMPOP !1|2|0|x $list $list !LEFT|RIGHT|x ?COUNT $integer",
    "LMPOP 1 $list !LEFT|RIGHT COUNT !1|3|0",
    "BLPOP $list $list 0.001",
    "BRPOP $list 0.001",
    "BLMOVE $list $list !LEFT|RIGHT !LEFT|RIGHT 0.001",
    "BRPOPLPUSH $list $list 0.001",
    "BLMPOP 0.001 2 $list $list !LEFT|RIGHT ?COUNT 2",
    "BLPOP $list !-1|x|inf",
    "LPUSH $list",
];

pub(crate) static SORTED_SETS: &[&str] = &[
    "ZADD $set $score $member",
    "ZADD $set $score $member $score $member $score $member",
    "ZADD $set ?NX|XX ?GT|LT ?CH $score $member $score $member",
    "ZADD $set ?NX|XX ?GT|LT ?CH INCR $score $member",
    "ZADD $set $score",
    "ZADD $set $scored",
    "ZINCRBY $set $score $member",
    "ZREM $set $member $member",
    "ZCARD $set",
    "ZSCORE $set $member",
    "ZMSCORE $set $member $member",
    "ZRANK $set $member",
    "ZREVRANK $set $member",
    "ZCOUNT $set $bound $bound",
    "ZRANGE $set $integer $integer ?REV ?WITHSCORES",
    "ZRANGE $set 0 -1 WITHSCORES",
    "ZRANGE $set $bound $bound BYSCORE ?REV ?WITHSCORES",
    "ZRANGE $set $bound $bound BYSCORE LIMIT $integer $integer",
    "ZRANGE $set 0 -1 LIMIT 0 $integer",
    "ZRANGE $set $lex $lex BYLEX WITHSCORES",
    "ZRANGEBYSCORE $set $bound $bound ?WITHSCORES LIMIT $integer $integer",
    "ZREVRANGEBYSCORE $set $bound $bound ?WITHSCORES",
    "ZREVRANGE $set $integer $integer ?WITHSCORES|REV",
    "ZRANGESTORE $set $set $integer $integer ?REV",
    "ZRANGESTORE $set $set $bound $bound BYSCORE LIMIT 0 2",
    "ZREMRANGEBYRANK $set $integer $integer",
    "ZREMRANGEBYSCORE $set $bound $bound",
    "ZPOPMIN $set ?$integer",
    "ZPOPMAX $set ?$integer",
    "ZPOPMIN $set $integer",
    "ZMPOP !1|2|0|x $set $set !MIN|MAX|x ?COUNT $integer",
    "BZPOPMIN $set $set 0.001",
    "BZPOPMAX $set 0.001",
    "BZMPOP 0.001 1 $set !MIN|MAX ?COUNT 2",
    "ZUNION 2 $set $set ?WITHSCORES",
    "ZUNION 2 $set $set WEIGHTS $score $score AGGREGATE !SUM|MIN|MAX|x WITHSCORES",
    "ZINTER 2 $set $set ?WITHSCORES",
    "ZINTER 2 $set $set AGGREGATE !SUM|MIN|MAX WITHSCORES",
    "ZDIFF 2 $set $set ?WITHSCORES",
    "ZDIFF 3 $set $set $set WITHSCORES",
    "ZUNIONSTORE $set 2 $set $set WEIGHTS 2 $score",
    "ZINTERSTORE $set 2 $set $set AGGREGATE !SUM|MIN|MAX",
    "ZDIFFSTORE $set 2 $set $set",
    "ZINTERCARD 2 $set $set LIMIT $integer",
    "ZINTERCARD !0|9|x $set",
    "ZSCAN $set 0 ?MATCH ?m*",
    "ZSCAN $set x",
    "ZRANDMEMBER nokey ?5",
    "ZADD $lexset 0 $member 0 $member",
    "ZRANGEBYLEX $lexset $lex $lex ?LIMIT $integer $integer",
    "ZREVRANGEBYLEX $lexset $lex $lex",
    "ZRANGE $lexset $lex $lex BYLEX ?REV LIMIT $integer $integer",
    "ZLEXCOUNT $lexset $lex $lex",
    "ZREMRANGEBYLEX $lexset $lex $lex",
];

pub(crate) static GEO: &[&str] = &[
    "GEOADD $geo $longitude $latitude $member",
    "GEOADD $geo ?NX|XX ?CH $longitude $latitude $member $longitude $latitude $member",
    // Of one member: the order of members with one distance is open with COUNT.
    "GEOADD $geo 10 20 m0",
    "GEOADD $geo 181 20 a",
    "GEOPOS $geo $member $member",
    "GEOHASH $geo $member $member",
    "GEODIST $geo $member $member ?km|ft|mi|x",
    "GEOSEARCH $geo FROMLONLAT $longitude $latitude BYRADIUS $radius km ?WITHDIST ?WITHHASH ?WITHCOORD",
    "GEOSEARCH $geo FROMLONLAT $longitude $latitude BYBOX $radius $radius km !ASC|DESC ?WITHDIST",
    "GEOSEARCH $geo FROMLONLAT $longitude $latitude BYBOX $radius $radius mi",
    "GEOSEARCH $geo FROMMEMBER $member BYRADIUS $radius km !ASC|DESC COUNT 2 ?ANY WITHDIST",
    "GEOSEARCH $geo FROMMEMBER $member",
    "GEOSEARCH $geo BYRADIUS 1 km ASC",
    "GEOSEARCHSTORE $geo $geo FROMLONLAT $longitude $latitude BYRADIUS $radius km",
    "GEOSEARCHSTORE $set $geo FROMLONLAT $longitude $latitude BYRADIUS $radius km STOREDIST",
    "GEORADIUS $geo $longitude $latitude $radius m|km|x",
    "GEORADIUS $geo $longitude $latitude $radius km COUNT !1|3|0 ?ANY",
    "GEORADIUS_RO $geo $longitude $latitude $radius km DESC WITHDIST",
    "GEORADIUS $geo $longitude $latitude $radius km STORE $geo",
    "GEORADIUSBYMEMBER $geo $member $radius km ASC",
    "GEORADIUSBYMEMBER_RO $geo $member $radius km ?STORE",
    "GEORADIUSBYMEMBER $geo $member $radius km STOREDIST $set",
];

pub(crate) static KEYS: &[&str] = &[
    "DEL $any",
    "TYPE $any",
    "EXISTS $any $any",
    "RENAME $any $any",
    "COPY $any $any REPLACE",
    "SET $any text",
    "GET $any",
    "EXPIRE $any 100000",
    "PERSIST $any",
    "EXPIRE $any -1",
    "OBJECT ENCODING $set",
    "MULTI",
    "EXEC",
    "EXEC",
    "WATCH $any",
    "HELLO !2|3",
];

fn pick<'a>(random: &SeededRandom, from: &[&'a str]) -> &'a str {
    from[random.uniform(from.len() as u64) as usize]
}

/// Number with decimals, which differs from all others.
fn fraction(random: &SeededRandom, max: f64) -> String {
    let unit = random.next_u64() as f64 / u64::MAX as f64;
    format!("{:.6}", (2.0 * unit - 1.0) * max)
}

fn argument(random: &SeededRandom, kind: &str) -> Vec<String> {
    let small = |count| random.uniform(count);
    let values = ["a", "b", "c", "", "1", "a longer element\r\n", "x"];
    let scores = ["0", "1", "2", "-1", "1.5", "-0", "0.1", "inf", "-inf", "1e300", "3", "4", "x", "nan"];
    let bounds = ["-inf", "+inf", "0", "1", "(1", "2", "(0", "-1", "1.5", "(inf", "x", "3"];
    let ids = [
        "0", "-", "+", "1", "1-1", "1-2", "5-1", "5-3", "(5", "9-1", "9-2", "9-4", "9-9", "(9-1", "x", "5-*",
    ];
    let adds =
        ["1-1", "2-*", "5-*", "5-*", "9-*", "9-*", "9-*", "9-*", "9-*", "9-*", "9-7", "0-0", "0-*", "x"];
    let any = ["list:0", "list:1", "set:0", "set:1", "geo:0", "text:0", "stream:0"];
    let integers = ["0", "1", "-1", "2", "-2", "3", "5", "-5", "100", "-100", "x", "9223372036854775807"];
    let lex = ["-", "+", "[m1", "(m1", "[m2", "(m3", "[", "(", "x", "[m4"];
    let word = match kind {
        "list" if small(20) == 0 => "text:0".into(),
        "list" => format!("list:{}", small(3)),
        "set" if small(20) == 0 => "text:0".into(),
        "set" => format!("set:{}", small(3)),
        "lexset" => format!("lex:{}", small(2)),
        "stream" if small(25) == 0 => "text:0".into(),
        "stream" => format!("stream:{}", small(2)),
        "group" => format!("group{}", small(10) / 4),
        "consumer" => format!("consumer{}", small(3)),
        "id" => pick(random, &ids).into(),
        "add" => pick(random, &adds).into(),
        "geo" => format!("geo:{}", small(2)),
        "any" => pick(random, &any).into(),
        "value" => pick(random, &values).into(),
        "member" => format!("m{}", small(8)),
        "score" => pick(random, &scores).into(),
        "bound" => pick(random, &bounds).into(),
        "lex" => pick(random, &lex).into(),
        "integer" => pick(random, &integers).into(),
        "longitude" => fraction(random, 180.0),
        "latitude" => fraction(random, 70.0),
        "radius" => pick(random, &["0", "100", "1000", "5000", "20000", "-1", "x", "300.5"]).into(),
        "values" => return (0..small(400)).map(|_| pick(random, &values).into()).collect(),
        "scored" => return (0..20).flat_map(|at| [format!("{}", at % 7), format!("m{}", at % 9)]).collect(),
        other => panic!("unknown argument {other}"),
    };
    vec![word]
}

fn command(random: &SeededRandom, template: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in template.split(' ') {
        match word.split_at(1) {
            ("$", "") => words.push("$".into()),
            ("$", kind) => words.extend(argument(random, kind)),
            ("?", options) => {
                let options: Vec<&str> = options.split('|').collect();
                if let Some(option) = options.get(random.uniform(options.len() as u64 + 1) as usize) {
                    words.extend(match option.strip_prefix('$') {
                        Some(kind) => argument(random, kind),
                        None => vec![(*option).into()],
                    });
                }
            }
            ("!", options) => words.push(pick(random, &options.split('|').collect::<Vec<_>>()).into()),
            _ => words.push(word.into()),
        }
    }
    words
}

/// Compares the replies of both servers to `steps` commands of `groups`. `normalized` removes what
/// may differ from a reply, or is None for a command that does not run within MULTI.
pub(crate) fn compare(
    groups: &[&[&str]],
    seed: u64,
    steps: usize,
    period: usize,
    normalized: fn(&[String], &str) -> Option<String>,
) {
    compare_at(Place::Directory(Layout::Typed), groups, seed, [steps, period], normalized);
}

/// Like [`compare`], with the records of our server at `place`, and the numbers of steps and of
/// steps between two starts of our server.
pub(crate) fn compare_at(
    place: Place<'_>,
    groups: &[&[&str]],
    seed: u64,
    [steps, period]: [usize; 2],
    normalized: fn(&[String], &str) -> Option<String>,
) {
    let mut log: Vec<String> = Vec::new();
    let mut is_in_multi = false;
    beside_redis(place, seed, steps, period, |random, ours, theirs, is_new| {
        is_in_multi &= !is_new;
        let group = groups[random.uniform(groups.len() as u64) as usize];
        let command = command(random, pick(random, group));
        // Redis counts HELLO within MULTI as an error of the command, not of the transaction.
        if is_in_multi && (command[0] == "HELLO" || normalized(&command, "").is_none()) {
            return 1;
        }
        let [expected, found] = [theirs, ours].map(|client| {
            let reply = client.call(&command);
            normalized(&command, &reply).unwrap_or(reply)
        });
        // The greeting names the server.
        let is_equal = expected == found || command[0] == "HELLO";
        log.push(format!("{command:?} -> {found}"));
        match command[0].as_str() {
            "MULTI" => is_in_multi = true,
            "EXEC" => is_in_multi = false,
            _ => {}
        }
        let last = log[log.len().saturating_sub(40)..].join("\n");
        assert!(is_equal, "{command:?}\n  redis: {expected}\n  ours:  {found}\n{last}");
        1
    });
}

/// All replies as they are.
pub(crate) fn as_it_is(_: &[String], reply: &str) -> Option<String> {
    Some(reply.into())
}

#[test]
fn lists_like_redis() {
    compare(&[LISTS, LISTS, LISTS, KEYS], 2503, 6000, 1500, as_it_is);
}

#[test]
fn sorted_sets_like_redis() {
    compare(&[SORTED_SETS, SORTED_SETS, SORTED_SETS, KEYS], 2504, 6000, 1500, as_it_is);
}

#[test]
fn geo_like_redis() {
    compare(&[GEO, GEO, GEO, KEYS], 2505, 3000, 1000, as_it_is);
}
