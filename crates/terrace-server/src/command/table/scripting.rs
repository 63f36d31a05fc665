//! Rows of the commands that run scripts.

use super::super::script;
use super::flags::{ALONE, NO_FLAGS, READ, SCRIPT};
use super::{Command, MoreKeys, NONE, row};

/// Commands of the group `scripting`.
pub(super) static SCRIPTING: &[Command] = &[
    row(
        "eval",
        -3,
        SCRIPT.and(ALONE),
        NONE.and(MoreKeys::Counted(2)),
        "scripting",
        "2.6.0",
        "Runs a Lua script",
        script::eval,
    ),
    row(
        "eval_ro",
        -3,
        SCRIPT.and(READ),
        NONE.and(MoreKeys::Counted(2)),
        "scripting",
        "7.0.0",
        "Runs a script that only reads",
        script::eval_ro,
    ),
    row(
        "evalsha",
        -3,
        SCRIPT.and(ALONE),
        NONE.and(MoreKeys::Counted(2)),
        "scripting",
        "2.6.0",
        "Runs a script by its SHA-1",
        script::evalsha,
    ),
    row(
        "evalsha_ro",
        -3,
        SCRIPT.and(READ),
        NONE.and(MoreKeys::Counted(2)),
        "scripting",
        "7.0.0",
        "Runs a reading script by its SHA-1",
        script::evalsha_ro,
    ),
    row("function", -2, NO_FLAGS, NONE, "scripting", "7.0.0", "Functions: there are none", script::function),
    row("script", -2, NO_FLAGS, NONE, "scripting", "2.6.0", "Loads, finds, kills scripts", script::script),
];
