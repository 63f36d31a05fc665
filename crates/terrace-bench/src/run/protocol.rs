//! Protocol of a measuring process: one JSON object per line.
//!
//! ```text
//!   the run                                     the process, one for each engine and round
//!      |------- RunRequest, then end of input ------>|
//!      |<------ {"tick":{"row":0,"done":1,"of":9}} --|   now and then
//!      |<------ {"result":{...}} --------------------|   after each phase
//!      |<------ {"error":"..."} ---------------------|   instead of a result, at a failure
//! ```
//!
//! Any program that implements this protocol can be an engine. Its `result` leaves `round` at 0 and
//! omits `space_amplification`, which the parent computes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::model::{PhaseInfo, PhaseResult, Settings};

/// Request to run phases with one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// Id of the engine.
    pub engine: String,
    /// Library or program that the user selected by path.
    pub path: Option<PathBuf>,
    /// Empty directory for the database.
    pub dir: PathBuf,
    /// Settings of the engine.
    pub settings: Settings,
    /// Phases to execute.
    pub phases: Vec<PhaseInfo>,
}

/// A message of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// Progress of the current phase.
    Tick(ProgressTick),
    /// Result of a finished phase.
    Result(Box<PhaseResult>),
    /// Error that ends the process.
    Error(String),
}

/// Progress of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressTick {
    /// Row of the phase.
    pub row: usize,
    /// Number of finished operations.
    pub done: u64,
    /// Total number of operations.
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
