//! Rows of the commands of streams.

use super::super::stream;
use super::flags::{BLOCKING, CONTAINER, READ, READ_FAST, WRITE, WRITE_FAST};
use super::{Command, FIRST, Keys, MoreKeys, NONE, row};

/// Keys between STREAMS and the IDs.
const STREAMS: Keys = NONE.and(MoreKeys::Streams);
/// The key after the subcommand.
const SUBCOMMAND: Keys = NONE.and(MoreKeys::Subcommand);

/// Commands of the group `stream`.
pub(super) static STREAM: &[Command] = &[
    row("xack", -4, WRITE_FAST, FIRST, "stream", "5.0.0", "Ends the delivery of entries", stream::xack),
    row("xadd", -5, WRITE_FAST, FIRST, "stream", "5.0.0", "Appends an entry", stream::xadd),
    row(
        "xautoclaim",
        -6,
        WRITE_FAST,
        FIRST,
        "stream",
        "6.2.0",
        "Gives idle entries to a consumer",
        stream::xautoclaim,
    ),
    row("xclaim", -6, WRITE_FAST, FIRST, "stream", "5.0.0", "Gives entries to a consumer", stream::xclaim),
    row("xdel", -3, WRITE_FAST, FIRST, "stream", "5.0.0", "Deletes entries", stream::xdel),
    row(
        "xgroup",
        -2,
        WRITE.and(CONTAINER),
        SUBCOMMAND,
        "stream",
        "5.0.0",
        "Changes consumer groups",
        stream::xgroup,
    )
    .with(stream::XGROUP),
    row("xinfo", -2, CONTAINER, SUBCOMMAND, "stream", "5.0.0", "Describes a stream", stream::xinfo)
        .with(stream::XINFO),
    row("xlen", 2, READ_FAST, FIRST, "stream", "5.0.0", "Number of entries", stream::xlen),
    row("xpending", -3, READ, FIRST, "stream", "5.0.0", "Entries in delivery", stream::xpending),
    row("xrange", -4, READ, FIRST, "stream", "5.0.0", "Returns a range of entries", stream::xrange),
    row(
        "xread",
        -4,
        READ.and(BLOCKING),
        STREAMS,
        "stream",
        "5.0.0",
        "Returns new entries, or waits",
        stream::xread,
    ),
    row(
        "xreadgroup",
        -7,
        WRITE.and(BLOCKING),
        STREAMS,
        "stream",
        "5.0.0",
        "Delivers entries to a consumer, or waits",
        stream::xreadgroup,
    ),
    row(
        "xrevrange",
        -4,
        READ,
        FIRST,
        "stream",
        "5.0.0",
        "Returns entries in descending order",
        stream::xrevrange,
    ),
    row("xsetid", -3, WRITE_FAST, FIRST, "stream", "5.0.0", "Sets the last ID", stream::xsetid),
    row("xtrim", -4, WRITE, FIRST, "stream", "5.0.0", "Removes the oldest entries", stream::xtrim),
];
