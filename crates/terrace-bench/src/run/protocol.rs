//! What a measuring process is told, and what it says: one JSON object a line.
//!
//! ```text
//!   the run                                     the process, one for each engine and round
//!      |------- Turn, then end of input ------------>|
//!      |<------ {"tick":{"row":0,"done":1,"of":9}} --|   now and then
//!      |<------ {"result":{...}} --------------------|   after each phase
//!      |<------ {"error":"..."} ---------------------|   instead of a result; nothing follows, and it fails
//! ```
//!
//! Any program in any language that speaks this is an engine. Its `result` leaves `round` at 0 and
//! `space_amplification` out: the run knows those.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::model::{PhaseInfo, PhaseResult, Settings};

/// One engine's turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// The engine's id.
    pub engine: String,
    /// The library or program that was asked for by path.
    pub path: Option<PathBuf>,
    /// An empty directory for the database.
    pub dir: PathBuf,
    /// What the engine is told.
    pub settings: Settings,
    /// What to do.
    pub phases: Vec<PhaseInfo>,
}

/// A line of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// It gets on.
    Tick(ProgressTick),
    /// A phase is done.
    Result(Box<PhaseResult>),
    /// It can't go on.
    Error(String),
}

/// How far a phase has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressTick {
    /// Which phase.
    pub row: usize,
    /// Operations done.
    pub done: u64,
    /// Operations in all.
    pub of: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: Message, line: &str) {
        assert_eq!(serde_json::to_string(&message).expect("it is plain data"), line);
        assert_eq!(serde_json::from_str::<Message>(line).expect("it is the line above"), message);
    }

    #[test]
    fn message_lines() {
        check(
            Message::Tick(ProgressTick { row: 1, done: 2, of: 3 }),
            r#"{"tick":{"row":1,"done":2,"of":3}}"#,
        );
        check(Message::Error("no space".into()), r#"{"error":"no space"}"#);
    }

    #[test]
    fn missing_and_unknown_fields_are_accepted() {
        let line = r#"{"result":{"row":4,"ops":7,"more":"than we know"}}"#;
        let expect = PhaseResult { row: 4, ops: 7, ..PhaseResult::default() };
        assert_eq!(serde_json::from_str::<Message>(line).ok(), Some(Message::Result(Box::new(expect))));
    }
}
