//! Rows of the commands for objects.

use super::super::{dump, hashes, sets, sort};
use super::flags::{ALONE, DANGEROUS, MEMBER_WRITE, READ, READ_FAST, WRITE, WRITE_FAST};
use super::{ALL, Command, FIRST, MoreKeys, NONE, keys, row};

/// Commands of the group `hash`.
pub(super) static HASH: &[Command] = &[
    row("hdel", -3, MEMBER_WRITE, FIRST, "hash", "2.0.0", "Deletes fields", hashes::hdel),
    row("hexists", 3, READ_FAST, FIRST, "hash", "2.0.0", "Tells whether a field exists", hashes::hexists),
    row("hget", 3, READ_FAST, FIRST, "hash", "2.0.0", "Returns a field", hashes::hget),
    row("hgetall", 2, READ, FIRST, "hash", "2.0.0", "Returns all fields with their values", hashes::hgetall),
    row("hincrby", 4, MEMBER_WRITE, FIRST, "hash", "2.0.0", "Adds to an integer in a field", hashes::hincrby),
    row(
        "hincrbyfloat",
        4,
        MEMBER_WRITE,
        FIRST,
        "hash",
        "2.6.0",
        "Adds to a number in a field",
        hashes::hincrbyfloat,
    ),
    row("hkeys", 2, READ, FIRST, "hash", "2.0.0", "Returns all fields without their values", hashes::hkeys),
    row("hlen", 2, READ_FAST, FIRST, "hash", "2.0.0", "Number of fields", hashes::hlen),
    row("hmget", -3, READ_FAST, FIRST, "hash", "2.0.0", "Returns several fields", hashes::hmget),
    row("hmset", -4, MEMBER_WRITE, FIRST, "hash", "2.0.0", "Stores fields", hashes::hmset),
    row("hrandfield", -2, READ, FIRST, "hash", "6.2.0", "Returns random fields", hashes::hrandfield),
    row("hscan", -3, READ, FIRST, "hash", "2.8.0", "Lists fields in parts", hashes::hscan),
    row("hset", -4, MEMBER_WRITE, FIRST, "hash", "2.0.0", "Stores fields", hashes::hset),
    row(
        "hsetnx",
        4,
        MEMBER_WRITE,
        FIRST,
        "hash",
        "2.0.0",
        "Stores a field if it does not exist",
        hashes::hsetnx,
    ),
    row("hstrlen", 3, READ_FAST, FIRST, "hash", "3.2.0", "Length of a field's value", hashes::hstrlen),
    row("hvals", 2, READ, FIRST, "hash", "2.0.0", "Returns all values", hashes::hvals),
];

/// Commands of the group `set`.
pub(super) static SET: &[Command] = &[
    row("sadd", -3, MEMBER_WRITE, FIRST, "set", "1.0.0", "Adds members", sets::sadd),
    row("scard", 2, READ_FAST, FIRST, "set", "1.0.0", "Number of members", sets::scard),
    row("sdiff", -2, READ, ALL, "set", "1.0.0", "Members of the first set only", sets::sdiff),
    row("sdiffstore", -3, WRITE, ALL, "set", "1.0.0", "Stores a difference", sets::sdiffstore),
    row("sinter", -2, READ, ALL, "set", "1.0.0", "Members of all sets", sets::sinter),
    row(
        "sintercard",
        -3,
        READ,
        NONE.and(MoreKeys::Counted(1)),
        "set",
        "7.0.0",
        "Number of members of all sets",
        sets::sintercard,
    ),
    row("sinterstore", -3, WRITE, ALL, "set", "1.0.0", "Stores an intersection", sets::sinterstore),
    row("sismember", 3, READ_FAST, FIRST, "set", "1.0.0", "Tells whether a member exists", sets::sismember),
    row("smembers", 2, READ, FIRST, "set", "1.0.0", "Returns all members", sets::smembers),
    row("smismember", -3, READ_FAST, FIRST, "set", "6.2.0", "Tells which members exist", sets::smismember),
    row("smove", 4, WRITE_FAST, keys(1, 2, 1), "set", "1.0.0", "Moves a member to another set", sets::smove),
    row("spop", -2, WRITE_FAST, FIRST, "set", "1.0.0", "Returns and deletes random members", sets::spop),
    row("srandmember", -2, READ, FIRST, "set", "1.0.0", "Returns random members", sets::srandmember),
    row("srem", -3, MEMBER_WRITE, FIRST, "set", "1.0.0", "Deletes members", sets::srem),
    row("sscan", -3, READ, FIRST, "set", "2.8.0", "Lists members in parts", sets::sscan),
    row("sunion", -2, READ, ALL, "set", "1.0.0", "Members of any of the sets", sets::sunion),
    row("sunionstore", -3, WRITE, ALL, "set", "1.0.0", "Stores a union", sets::sunionstore),
];

/// Commands of the group `generic` that know the parts of objects.
pub(super) static GENERIC: &[Command] = &[
    row("dump", 2, READ, FIRST, "generic", "2.6.0", "Returns a value as bytes", dump::dump),
    row(
        "restore",
        -4,
        WRITE.and(DANGEROUS),
        FIRST,
        "generic",
        "2.6.0",
        "Stores a value that DUMP has returned",
        dump::restore,
    ),
    // It runs alone, because its arguments may name any key.
    row(
        "sort",
        -2,
        WRITE.and(ALONE).and(DANGEROUS),
        FIRST.and(MoreKeys::Stored(2)),
        "generic",
        "1.0.0",
        "Returns or stores elements in order",
        sort::sort,
    ),
    row(
        "sort_ro",
        -2,
        READ.and(DANGEROUS),
        FIRST,
        "generic",
        "7.0.0",
        "Returns elements in order",
        sort::sort_ro,
    ),
];
