//! Limits on the unsent output of a client, by its class: `client-output-buffer-limit`.
//!
//! ```text
//!   normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60
//!          |  \ \----- time in seconds
//!          |   \------ soft limit: the client is disconnected when it is exceeded for this time
//!          hard limit: the client is disconnected at once; 0 for none
//! ```

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::client::ClientType;

/// Limit on the unsent output of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    /// Bytes above which the client is disconnected at once, or 0 for no limit.
    pub(crate) hard: usize,
    /// Bytes that the client may exceed for [`OutputLimit::soft_seconds`], or 0 for no limit.
    pub(crate) soft: usize,
    pub(crate) soft_seconds: u64,
}

impl OutputLimit {
    /// True if the client is disconnected at once.
    pub(crate) fn is_over_hard(&self, bytes: usize) -> bool {
        self.hard > 0 && bytes > self.hard
    }

    /// True if the client is disconnected after [`OutputLimit::soft_time`].
    pub(crate) fn is_over_soft(&self, bytes: usize) -> bool {
        self.soft > 0 && bytes > self.soft
    }

    /// Time for which the soft limit may be exceeded.
    pub(crate) fn soft_time(&self) -> Duration {
        Duration::from_secs(self.soft_seconds)
    }
}

/// Class of clients. A replica cannot connect, so its limits have no effect.
#[derive(Debug, Clone, Copy)]
enum Class {
    Normal,
    Replica,
    PubSub,
}

/// Names of the classes. The first one of a class is the one that clients read.
static NAMES: &[(&str, Class)] = &[
    ("normal", Class::Normal),
    ("slave", Class::Replica),
    ("pubsub", Class::PubSub),
    ("replica", Class::Replica),
];

/// Limit of a class. Relaxed everywhere: a reader beside a change may see a part of it.
#[derive(Debug, Default)]
struct ClassLimit {
    hard: AtomicUsize,
    soft: AtomicUsize,
    soft_seconds: AtomicU64,
}

impl ClassLimit {
    fn load(&self) -> OutputLimit {
        OutputLimit {
            hard: self.hard.load(Ordering::Relaxed),
            soft: self.soft.load(Ordering::Relaxed),
            soft_seconds: self.soft_seconds.load(Ordering::Relaxed),
        }
    }

    fn store(&self, limit: OutputLimit) {
        self.hard.store(limit.hard, Ordering::Relaxed);
        self.soft.store(limit.soft, Ordering::Relaxed);
        self.soft_seconds.store(limit.soft_seconds, Ordering::Relaxed);
    }
}

/// Limits of all classes.
#[derive(Debug)]
pub(crate) struct OutputLimits {
    /// Limits by the number of the class.
    limits: [ClassLimit; 3],
}

impl Default for OutputLimits {
    fn default() -> OutputLimits {
        let limits = OutputLimits { limits: Default::default() };
        limits.store([
            OutputLimit { hard: 0, soft: 0, soft_seconds: 0 },
            OutputLimit { hard: 256 << 20, soft: 64 << 20, soft_seconds: 60 },
            OutputLimit { hard: 32 << 20, soft: 8 << 20, soft_seconds: 60 },
        ]);
        limits
    }
}

impl OutputLimits {
    /// Returns the limit of a client.
    pub(crate) fn of(&self, client_type: ClientType) -> OutputLimit {
        let class = match client_type {
            ClientType::Normal => Class::Normal,
            ClientType::PubSub => Class::PubSub,
        };
        self.limits[class as usize].load()
    }

    fn store(&self, limits: [OutputLimit; 3]) {
        self.limits.iter().zip(limits).for_each(|(row, limit)| row.store(limit));
    }

    /// Text of the setting.
    pub(crate) fn text(&self) -> String {
        let rows = NAMES.iter().zip(&self.limits);
        let texts = rows.map(|((name, _), limit)| {
            let limit = limit.load();
            format!("{name} {} {} {}", limit.hard, limit.soft, limit.soft_seconds)
        });
        texts.collect::<Vec<String>>().join(" ")
    }

    /// Changes the classes that `text` names. `parse_size` parses bytes with a unit.
    ///
    /// # Errors
    ///
    /// The reason of a refusal. Nothing is changed.
    pub(crate) fn set(&self, text: &str, parse_size: fn(&str) -> Option<i64>) -> Result<(), &'static str> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (rows, []) = words.as_chunks::<4>() else {
            return Err("Wrong number of arguments in buffer limit configuration.");
        };
        let mut changed = self.limits.each_ref().map(ClassLimit::load);
        for [name, hard, soft, seconds] in rows {
            let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let (_, class) = known.ok_or("Invalid client class specified in buffer limit configuration.")?;
            let size = |text: &str| parse_size(text).and_then(|bytes| usize::try_from(bytes).ok());
            changed[*class as usize] = match (size(hard), size(soft), seconds.parse()) {
                (Some(hard), Some(soft), Ok(soft_seconds)) => OutputLimit { hard, soft, soft_seconds },
                _ => {
                    return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.");
                }
            };
        }
        self.store(changed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<i64> {
        text.parse().ok()
    }

    #[test]
    fn text_of_the_setting() {
        let limits = OutputLimits::default();
        assert_eq!(limits.text(), "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60");
        limits.set("pubsub 5 4 3  Normal 7 0 0", parse).unwrap();
        assert_eq!(limits.text(), "normal 7 0 0 slave 268435456 67108864 60 pubsub 5 4 3");
        let normal = limits.of(ClientType::Normal);
        assert!(normal.is_over_hard(8) && !normal.is_over_hard(7) && !normal.is_over_soft(8));
        assert_eq!(limits.of(ClientType::PubSub).soft_time(), Duration::from_secs(3));
    }

    #[test]
    fn refused_values_change_nothing() {
        let limits = OutputLimits::default();
        let before = limits.text();
        for (text, expected) in [
            ("normal 1 2", "Wrong number"),
            ("normal 1 1 1 master 1 1 1", "Invalid client class"),
            ("normal 1 x 1", "Error in hard"),
            ("normal 1 1 1s", "Error in hard"),
            ("pubsub -1 1 1", "Error in hard"),
        ] {
            assert!(limits.set(text, parse).unwrap_err().starts_with(expected), "{text}");
        }
        assert_eq!(limits.text(), before);
    }
}
