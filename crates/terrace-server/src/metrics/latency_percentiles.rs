//! Percentiles of INFO latencystats: `latency-tracking` and `latency-tracking-info-percentiles`.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_sync::native_locks::Mutex;

/// Percentiles that INFO shows.
#[derive(Debug)]
pub(crate) struct LatencyPercentiles {
    is_shown: AtomicBool,
    /// Values from 0 to 100.
    percentiles: Mutex<Vec<f64>>,
}

impl Default for LatencyPercentiles {
    fn default() -> LatencyPercentiles {
        LatencyPercentiles {
            is_shown: AtomicBool::new(true),
            percentiles: Mutex::new(vec![50.0, 99.0, 99.9]),
        }
    }
}

impl LatencyPercentiles {
    /// True if INFO shows them.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown.load(Ordering::Relaxed)
    }

    /// Shows or hides them.
    pub(crate) fn show(&self, is_shown: bool) {
        self.is_shown.store(is_shown, Ordering::Relaxed);
    }

    /// Returns the percentiles.
    pub(crate) fn all(&self) -> Vec<f64> {
        self.percentiles.lock().clone()
    }

    /// Text of the setting.
    pub(crate) fn text(&self) -> String {
        self.all().iter().map(f64::to_string).collect::<Vec<String>>().join(" ")
    }

    /// Changes the percentiles to the numbers in `text`. Returns false, and changes nothing, unless
    /// all of them are between 0 and 100.
    pub(crate) fn set(&self, text: &str) -> bool {
        let numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
        let percentiles = numbers.map(|number| number.filter(|number| (0.0..=100.0).contains(number)));
        let Some(percentiles) = percentiles.collect() else { return false };
        *self.percentiles.lock() = percentiles;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_setting() {
        let percentiles = LatencyPercentiles::default();
        assert_eq!(percentiles.text(), "50 99 99.9");
        assert!(percentiles.set("0.0 50.0 100.0"));
        for refused in ["10.0 50.0 a", "101.0", "-1", "nan"] {
            assert!(!percentiles.set(refused), "{refused}");
        }
        assert_eq!(percentiles.text(), "0 50 100");
        assert!(percentiles.set(""));
        assert_eq!(percentiles.text(), "");
    }
}
