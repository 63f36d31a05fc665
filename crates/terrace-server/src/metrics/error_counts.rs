//! Number of error replies by their first word.

use std::collections::BTreeMap;

use terrace_sync::native_locks::Mutex;

/// Maximum number of words. Scripts may invent words, which are not counted after this number.
const MAX_WORDS: usize = 128;
/// Maximum length of a word, in bytes.
const MAX_LEN: usize = 64;

/// Error replies since the start, by their first word.
#[derive(Debug, Default)]
pub(crate) struct ErrorCounts {
    counts: Mutex<BTreeMap<String, u64>>,
}

impl ErrorCounts {
    /// Counts the error with the text `text`.
    pub(crate) fn record(&self, text: &str) {
        let word = text.split(' ').next().unwrap_or_default();
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(word) {
            *count += 1;
        } else if counts.len() < MAX_WORDS && word.len() <= MAX_LEN {
            counts.insert(word.to_owned(), 1);
        }
    }

    /// Returns all words with their counts.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        self.counts.lock().iter().map(|(word, count)| (word.clone(), *count)).collect()
    }

    /// Forgets all words.
    pub(crate) fn reset(&self) {
        self.counts.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_errors() {
        let counts = ErrorCounts::default();
        for text in ["ERR syntax error", "WRONGTYPE x", "ERR y"] {
            counts.record(text);
        }
        assert_eq!(counts.all(), [("ERR".into(), 2), ("WRONGTYPE".into(), 1)]);
        for index in 0..1000 {
            counts.record(&format!("W{index} x"));
        }
        assert_eq!(counts.all().len(), MAX_WORDS);
    }
}
