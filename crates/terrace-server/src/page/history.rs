//! History of the figures: one hour by seconds, one week by minutes.
//!
//! ```text
//!   hour   3,600 rows ──┐
//!   week  10,080 rows ──┴── 17 columns of 4 bytes, and a time: about 1 MiB
//! ```

use std::collections::VecDeque;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::sample::Sample;

/// Names of the columns, with that of the time.
pub(super) static COLUMNS: &[&str] = &[
    "at",
    "reads",
    "writes",
    "p50Us",
    "p99Us",
    "longestUs",
    "clients",
    "memory",
    "disk",
    "cacheHit",
    "filterUseful",
    "stallSeconds",
    "flushBytes",
    "compactionReadBytes",
    "compactionWrittenBytes",
    "commands",
    "bytesIn",
    "bytesOut",
];

/// Number of columns without the time.
const VALUES: usize = 17;
/// Columns whose value for a minute is the maximum of its seconds: times of commands.
const MAXIMA: std::ops::Range<usize> = 2..5;
/// Column whose value for a minute is the sum of its seconds: the time of stalls.
const SUM: usize = 10;
/// Seconds in a row of the week.
const MINUTE: usize = 60;

/// Row of figures. NaN stands for an unknown one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// Milliseconds since 1970.
    at: u64,
    values: [f32; VALUES],
}

impl Row {
    /// Time of the row, in milliseconds since 1970.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn new(sample: &Sample) -> Row {
        let optional = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let values = [
            sample.reads,
            sample.writes,
            optional(sample.p50_us),
            optional(sample.p99_us),
            optional(sample.longest_us),
            sample.clients as f64,
            sample.memory.total as f64,
            sample.disk.bytes as f64,
            optional(sample.cache_hit),
            optional(sample.filter_useful),
            sample.stall_seconds,
            sample.flush_bytes,
            sample.compaction_read_bytes,
            sample.compaction_written_bytes,
            sample.commands,
            sample.bytes_in,
            sample.bytes_out,
        ];
        Row { at: sample.at, values: values.map(|value| value as f32) }
    }

    /// One row for the seconds of a minute.
    fn summary(rows: &[Row]) -> Option<Row> {
        let mut values = [f32::NAN; VALUES];
        for (column, value) in values.iter_mut().enumerate() {
            let known = rows.iter().map(|row| row.values[column]).filter(|value| !value.is_nan());
            let count = known.clone().count();
            if count > 0 {
                *value = match column {
                    column if MAXIMA.contains(&column) => known.fold(0.0, f32::max),
                    SUM => known.sum(),
                    _ => (known.map(f64::from).sum::<f64>() / count as f64) as f32,
                };
            }
        }
        Some(Row { at: rows.last()?.at, values })
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_seq(Some(VALUES + 1))?;
        row.serialize_element(&self.at)?;
        for value in &self.values {
            row.serialize_element(&Some(*value).filter(|value| value.is_finite()))?;
        }
        row.end()
    }
}

/// Rows of one range of time.
#[derive(Debug)]
pub(super) struct Series {
    rows: VecDeque<Row>,
    capacity: usize,
}

impl Series {
    fn new(capacity: usize) -> Series {
        Series { rows: VecDeque::new(), capacity }
    }

    fn push(&mut self, row: Row) {
        if self.rows.len() == self.capacity {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
    }
}

/// Figures of the last hour and the last week.
#[derive(Debug)]
pub(super) struct History {
    hour: Series,
    week: Series,
    /// Seconds of the current minute.
    minute: Vec<Row>,
}

impl Default for History {
    fn default() -> History {
        History { hour: Series::new(3600), week: Series::new(7 * 24 * 60), minute: Vec::new() }
    }
}

impl History {
    /// Adds the figures of a second.
    pub(super) fn push(&mut self, sample: &Sample) {
        let row = Row::new(sample);
        self.hour.push(row);
        self.minute.push(row);
        if self.minute.len() == MINUTE {
            if let Some(summary) = Row::summary(&self.minute) {
                self.week.push(summary);
            }
            self.minute.clear();
        }
    }

    /// Seconds of the last hour.
    pub(super) fn hour(&self) -> Vec<Row> {
        self.hour.rows.iter().copied().collect()
    }

    /// Minutes of the last week, and the current one.
    pub(super) fn week(&self) -> Vec<Row> {
        self.week.rows.iter().copied().chain(Row::summary(&self.minute)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, reads: f64, p99_us: Option<f64>) -> Sample {
        Sample { at, reads, p99_us, stall_seconds: 0.5, ..Sample::default() }
    }

    #[test]
    fn hour_and_week_are_bounded() {
        let mut history = History::default();
        for second in 0..11_000 * 60 {
            history.push(&sample(second * 1000, 1.0, None));
        }
        assert_eq!((history.hour().len(), history.week().len()), (3600, 10_080));
        assert!((history.hour.capacity + history.week.capacity + MINUTE) * size_of::<Row>() < 4 << 20);
        assert_eq!(COLUMNS.len(), VALUES + 1);
    }

    #[test]
    fn minute_is_a_summary() {
        let mut history = History::default();
        for second in 0..60u32 {
            let p99 = (second % 2 == 0).then_some(f64::from(second));
            history.push(&sample(u64::from(second) * 1000, f64::from(second % 2), p99));
        }
        let week = history.week();
        let text = serde_json::to_string(&week).unwrap();
        assert!(text.starts_with("[[59000,0.5,0.0,null,58.0,null,0.0,"), "{text}");
        assert_eq!(week[0].values[SUM], 30.0);
        history.push(&sample(60_000, 7.0, None));
        assert_eq!(history.week().len(), 2);
    }
}
