//! Borders of regions, so that a page of a scan asks one region.
//!
//! The scan of the client library asks all regions of its range at once, and then cuts the union to
//! the limit. So a page limits its range to the regions that probably contain it. Their borders
//! come from a placement driver. A border that has moved costs a request and nothing more, because
//! the library asks the right regions.
//!
//! ```text
//!   range     [start ........................................ end)
//!   regions   |   a   |   b   |   c   |   d   |   ..
//!   requests  [start..a) [b) [c ... d) ..     until the page is full
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use terrace_sync::native_locks::Mutex;
use tokio::time::Instant;

use super::address::TlsFiles;
use super::placement_driver::PlacementDriver;

/// Time after which a border is asked for again.
const LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of known regions.
const MAX_KNOWN: usize = 100_000;
/// Maximum time for the answer of a placement driver. A scan goes on without it.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Time after a missing answer in which scans ask no placement driver.
const SILENCE: Duration = Duration::from_secs(10);

/// Range of keys that one server serves. An empty end has no bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
}

impl Region {
    fn overlaps(&self, start: &[u8], end: &[u8]) -> bool {
        let is_before = !self.end.is_empty() && start >= self.end.as_slice();
        let is_after = !end.is_empty() && end <= self.start.as_slice();
        !is_before && !is_after
    }
}

/// Known regions by their start.
#[derive(Default)]
struct Known(BTreeMap<Vec<u8>, (Vec<u8>, Instant)>);

/// Regions of a cluster.
pub(super) struct Regions {
    known: Mutex<Known>,
    /// Driver, and the time of its last missing answer.
    driver: tokio::sync::Mutex<(PlacementDriver, Option<Instant>)>,
}

impl Known {
    /// Returns the region that contains `key`, or with `is_end` the keys before `key`.
    fn find(&self, key: &[u8], is_end: bool) -> Option<Region> {
        let bound = if is_end { Bound::Excluded(key) } else { Bound::Included(key) };
        let (start, (end, learned_at)) = self.0.range::<[u8], _>((Bound::Unbounded, bound)).next_back()?;
        let is_inside = end.is_empty() || key < end.as_slice() || (is_end && key == end.as_slice());
        let is_fresh = learned_at.elapsed() < LIFETIME;
        (is_inside && is_fresh).then(|| Region { start: start.clone(), end: end.clone() })
    }

    /// Adds a region, and removes those that it overlaps.
    fn insert(&mut self, region: &Region) {
        if self.0.len() >= MAX_KNOWN {
            self.0.clear();
        }
        let Region { start, end } = region;
        let before = self.0.range::<Vec<u8>, _>(..start).next_back().map(|(start, _)| start.clone());
        let from = before.unwrap_or_else(|| start.clone());
        let near = self.0.range(from..).take_while(|(known, _)| end.is_empty() || *known < end);
        let overlapped: Vec<Vec<u8>> = near
            .filter(|(known_start, (known_end, _))| region.overlaps(known_start, known_end))
            .map(|(known_start, _)| known_start.clone())
            .collect();
        overlapped.iter().for_each(|start| drop(self.0.remove(start)));
        self.0.insert(start.clone(), (end.clone(), Instant::now()));
    }
}

impl Regions {
    pub(super) fn new(hosts: Vec<String>, tls: Option<TlsFiles>) -> Regions {
        Regions {
            known: Mutex::default(),
            driver: tokio::sync::Mutex::new((PlacementDriver::new(hosts, tls), None)),
        }
    }

    /// Returns the end of the region that contains `key`, empty if it has none. None: it is not
    /// known.
    pub(super) async fn end_of_region(&self, key: &[u8]) -> Option<Vec<u8>> {
        let end = self.find(key, false).await?.end;
        (end.is_empty() || end.as_slice() > key).then_some(end)
    }

    /// Moves the safe point of the cluster to `timestamp`, unless it is later. None: no driver
    /// answers.
    pub(super) async fn move_safe_point(&self, timestamp: u64) -> Option<()> {
        let (driver, _) = &mut *self.driver.lock().await;
        let answer = tokio::time::timeout(ANSWER_TIME, driver.move_safe_point(timestamp)).await;
        if answer != Ok(Some(())) {
            driver.disconnect();
            return None;
        }
        Some(())
    }

    /// Returns the end of `count` regions from the one with `key` on. None: it is not known, or
    /// there is none.
    pub(super) async fn end_after(&self, key: &[u8], count: usize) -> Option<Vec<u8>> {
        let mut end = key.to_vec();
        for _ in 0..count {
            end = self.find(&end, false).await?.end;
            if end.is_empty() {
                return None;
            }
        }
        Some(end)
    }

    /// Returns the start of `count` regions up to the one with the keys before `end`. None: it is
    /// not known, or there is none.
    pub(super) async fn start_before(&self, end: &[u8], count: usize) -> Option<Vec<u8>> {
        let mut start = end.to_vec();
        for _ in 0..count {
            start = self.find(&start, true).await?.start;
            if start.is_empty() {
                return None;
            }
        }
        Some(start)
    }

    async fn find(&self, key: &[u8], is_end: bool) -> Option<Region> {
        let known = self.known.lock().find(key, is_end);
        if known.is_some() {
            return known;
        }
        let (driver, failed_at) = &mut *self.driver.lock().await;
        // Another scan may have asked for the same region meanwhile.
        let known = self.known.lock().find(key, is_end);
        if known.is_some() {
            return known;
        }
        if failed_at.is_some_and(|at| at.elapsed() < SILENCE) {
            return None;
        }
        let answer = tokio::time::timeout(ANSWER_TIME, driver.region(key, is_end)).await;
        let Ok(Some(region)) = answer else {
            driver.disconnect();
            *failed_at = Some(Instant::now());
            return None;
        };
        self.known.lock().insert(&region);
        Some(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known regions from text: "-d d-m m-" are three regions.
    fn known(text: &str) -> Known {
        let mut known = Known::default();
        for word in text.split_whitespace() {
            let (start, end) = word.split_once('-').unwrap();
            known.insert(&Region { start: start.into(), end: end.into() });
        }
        known
    }

    fn shown(known: &Known) -> String {
        let shown: Vec<String> = known
            .0
            .iter()
            .map(|(start, (end, _))| format!("{}-{}", start.escape_ascii(), end.escape_ascii()))
            .collect();
        shown.join(" ")
    }

    #[track_caller]
    fn check(text: &str, key: &str, is_end: bool, expect: Option<(&str, &str)>) {
        let expect = expect.map(|(start, end)| Region { start: start.into(), end: end.into() });
        assert_eq!(known(text).find(key.as_bytes(), is_end), expect);
    }

    #[test]
    fn region_of_a_key() {
        check("-d d-m m-", "d", false, Some(("d", "m")));
        check("-d d-m m-", "c", false, Some(("", "d")));
        check("-d d-m m-", "z", false, Some(("m", "")));
        check("-d m-", "e", false, None);
    }

    #[test]
    fn region_before_an_end() {
        check("-d d-m m-", "d", true, Some(("", "d")));
        check("-d d-m m-", "e", true, Some(("d", "m")));
        check("-d d-m m-", "m", true, Some(("d", "m")));
        check("-d m-", "m", true, None);
    }

    #[test]
    fn new_region_replaces_those_that_it_overlaps() {
        assert_eq!(shown(&known("-d d-m m- c-e")), "c-e m-");
        assert_eq!(shown(&known("-d d-m m- d-h h-m")), "-d d-h h-m m-");
        assert_eq!(shown(&known("-d d-m m- -")), "-");
        assert_eq!(shown(&known("- a-b")), "a-b");
    }
}
