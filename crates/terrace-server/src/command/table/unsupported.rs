//! Rows of the commands of Redis 7.0 that the server does not support. They reply an error.

use super::flags::{ADMIN, DANGEROUS, FAST, MAY_WRITE, NO_SCRIPT, READ, WRITE};
use super::{Command, FIRST, MoreKeys, NONE, keys, unsupported};

/// Commands without a function, by group.
pub(super) static UNSUPPORTED: &[Command] = &[
    unsupported("asking", 1, FAST.and(NO_SCRIPT), NONE, "cluster", "3.0.0"),
    unsupported("cluster", -2, NO_SCRIPT, NONE, "cluster", "3.0.0"),
    unsupported("readonly", 1, FAST, NONE, "cluster", "3.0.0"),
    unsupported("readwrite", 1, FAST, NONE, "cluster", "3.0.0"),
    unsupported("migrate", -6, WRITE.and(NO_SCRIPT).and(DANGEROUS), keys(3, 3, 1), "generic", "2.6.0"),
    unsupported("pfdebug", 3, WRITE.and(ADMIN), keys(2, 2, 1), "hyperloglog", "2.8.9"),
    unsupported("pfselftest", 1, ADMIN, NONE, "hyperloglog", "2.8.9"),
    unsupported("fcall", -3, MAY_WRITE.and(NO_SCRIPT), NONE.and(MoreKeys::Counted(2)), "scripting", "7.0.0"),
    unsupported("fcall_ro", -3, READ.and(NO_SCRIPT), NONE.and(MoreKeys::Counted(2)), "scripting", "7.0.0"),
    unsupported("failover", -1, ADMIN.and(NO_SCRIPT), NONE, "server", "6.2.0"),
    unsupported("psync", -3, ADMIN.and(NO_SCRIPT), NONE, "server", "2.8.0"),
    unsupported("replconf", -1, ADMIN.and(NO_SCRIPT), NONE, "server", "3.0.0"),
    unsupported("restore-asking", -4, WRITE.and(DANGEROUS), FIRST, "server", "3.0.0"),
    unsupported("sync", 1, ADMIN.and(NO_SCRIPT), NONE, "server", "1.0.0"),
];
