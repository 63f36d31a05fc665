//! Rows of the commands of Redis 7.0 that the server does not support. They reply an error.

use super::flags::{
    ADMIN, BLOCKING, CONTAINER, DANGEROUS, FAST, MAY_WRITE, NO_SCRIPT, READ, READ_FAST, WRITE, WRITE_FAST,
};
use super::{Command, FIRST, NONE, keys, unsupported};

/// Commands without a function, by group.
pub(super) static UNSUPPORTED: &[Command] = &[
    unsupported("asking", 1, FAST.and(NO_SCRIPT), NONE, "cluster", "3.0.0"),
    unsupported("cluster", -2, NO_SCRIPT, NONE, "cluster", "3.0.0"),
    unsupported("readonly", 1, FAST, NONE, "cluster", "3.0.0"),
    unsupported("readwrite", 1, FAST, NONE, "cluster", "3.0.0"),
    unsupported("migrate", -6, WRITE.and(NO_SCRIPT).and(DANGEROUS), keys(3, 3, 1), "generic", "2.6.0"),
    unsupported("pfdebug", 3, WRITE.and(ADMIN), keys(2, 2, 1), "hyperloglog", "2.8.9"),
    unsupported("pfselftest", 1, ADMIN, NONE, "hyperloglog", "2.8.9"),
    unsupported("fcall", -3, MAY_WRITE.and(NO_SCRIPT), NONE, "scripting", "7.0.0"),
    unsupported("fcall_ro", -3, READ.and(NO_SCRIPT), NONE, "scripting", "7.0.0"),
    unsupported("failover", -1, ADMIN.and(NO_SCRIPT), NONE, "server", "6.2.0"),
    unsupported("module", -2, CONTAINER.and(NO_SCRIPT), NONE, "server", "4.0.0"),
    unsupported("psync", -3, ADMIN.and(NO_SCRIPT), NONE, "server", "2.8.0"),
    unsupported("replconf", -1, ADMIN.and(NO_SCRIPT), NONE, "server", "3.0.0"),
    unsupported("restore-asking", -4, WRITE.and(DANGEROUS), FIRST, "server", "3.0.0"),
    unsupported("sync", 1, ADMIN.and(NO_SCRIPT), NONE, "server", "1.0.0"),
    unsupported("xack", -4, WRITE_FAST, FIRST, "stream", "5.0.0"),
    unsupported("xadd", -5, WRITE_FAST, FIRST, "stream", "5.0.0"),
    unsupported("xautoclaim", -6, WRITE_FAST, FIRST, "stream", "6.2.0"),
    unsupported("xclaim", -6, WRITE_FAST, FIRST, "stream", "5.0.0"),
    unsupported("xdel", -3, WRITE_FAST, FIRST, "stream", "5.0.0"),
    unsupported("xgroup", -2, CONTAINER.and(MAY_WRITE), NONE, "stream", "5.0.0"),
    unsupported("xinfo", -2, CONTAINER, NONE, "stream", "5.0.0"),
    unsupported("xlen", 2, READ_FAST, FIRST, "stream", "5.0.0"),
    unsupported("xpending", -3, READ, FIRST, "stream", "5.0.0"),
    unsupported("xrange", -4, READ, FIRST, "stream", "5.0.0"),
    unsupported("xread", -4, READ.and(BLOCKING), NONE, "stream", "5.0.0"),
    unsupported("xreadgroup", -7, WRITE.and(BLOCKING), NONE, "stream", "5.0.0"),
    unsupported("xrevrange", -4, READ, FIRST, "stream", "5.0.0"),
    unsupported("xsetid", -3, WRITE_FAST, FIRST, "stream", "5.0.0"),
    unsupported("xtrim", -4, WRITE, FIRST, "stream", "5.0.0"),
];
