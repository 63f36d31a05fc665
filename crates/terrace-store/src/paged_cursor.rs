//! Iterator over pages that a server sends.
//!
//! ```text
//!   page        a b c d          one request; entries in ascending order
//!   forward     [a b c d] [e f g h ..]   next page: first key after d
//!   backward    [.. w x y z] [a b c d]   previous page: last key before a
//! ```
//!
//! The first page is small, and each further page of the same direction has twice the entries, up
//! to a maximum of entries and of bytes. The request of the next page starts when the cursor has
//! passed half of the current one, so a long scan rarely waits.

use crate::error::{Error, Result};
use crate::key_range::{KeyRange, successor};
use crate::store::StoreIterator;

/// Entries of the first page.
const FIRST_PAGE: usize = 32;
/// Maximum number of entries of a page.
const MAX_PAGE: usize = 1024;
/// Size in bytes that a page should have at most, by the sizes of the entries before it.
const PAGE_BYTES: usize = 1 << 20;

/// Direction in which a page extends from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The first entries of the range.
    Forward,
    /// The last entries of the range.
    Backward,
}

/// Request of the first or last entries of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest {
    pub(crate) range: KeyRange,
    pub(crate) direction: Direction,
    /// Maximum number of entries.
    pub(crate) limit: usize,
}

/// Answer to a [`PageRequest`].
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Entries in ascending order of their keys.
    pub(crate) entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether the range contains further entries in the direction of the request.
    pub(crate) has_more: bool,
}

/// A page on its way. The call waits for it.
pub(crate) type PendingPage = Box<dyn FnOnce() -> Result<Page> + Send>;

/// Source of the pages of one snapshot.
pub(crate) trait PageSource: Send {
    /// Starts the request of a page.
    fn request(&self, request: PageRequest) -> PendingPage;
}

/// Cursor over the pages of a source.
pub(crate) struct PagedCursor<S> {
    source: S,
    range: KeyRange,
    page: Page,
    /// Index of the current entry in the page. None: the cursor is invalid.
    index: Option<usize>,
    /// True if entries may exist before the page.
    has_before: bool,
    /// True if entries may exist after the page.
    has_after: bool,
    /// Direction of the last request.
    direction: Direction,
    /// Maximum number of entries of the last request.
    limit: usize,
    /// Page that was requested before the cursor needs it.
    ahead: Option<(PageRequest, PendingPage)>,
    error: Option<Error>,
}

impl<S: PageSource> PagedCursor<S> {
    pub(crate) fn new(source: S, range: KeyRange) -> PagedCursor<S> {
        PagedCursor {
            source,
            range,
            page: Page::default(),
            index: None,
            has_before: false,
            has_after: false,
            direction: Direction::Forward,
            limit: FIRST_PAGE,
            ahead: None,
            error: None,
        }
    }

    /// Fetches a first page in `direction` from the bounds of `range`.
    fn start(&mut self, range: KeyRange, direction: Direction) {
        self.limit = FIRST_PAGE;
        self.ahead = None;
        self.error = None;
        self.fetch(PageRequest { range, direction, limit: FIRST_PAGE });
    }

    /// Replaces the page by the answer to `request`, and moves to its first entry in the direction.
    fn fetch(&mut self, request: PageRequest) {
        self.index = None;
        let direction = request.direction;
        let is_first_of_range = match direction {
            Direction::Forward => request.range.start == self.range.start,
            Direction::Backward => request.range.end == self.range.end,
        };
        let pending = match self.ahead.take() {
            Some((ahead, pending)) if ahead == request => pending,
            _ => self.source.request(request),
        };
        match pending() {
            Ok(page) => self.install(page, direction, is_first_of_range),
            Err(error) => self.error = Some(error),
        }
    }

    fn install(&mut self, page: Page, direction: Direction, is_first_of_range: bool) {
        match direction {
            Direction::Forward => {
                self.has_before = !is_first_of_range;
                self.has_after = page.has_more;
            }
            Direction::Backward => {
                self.has_before = page.has_more;
                self.has_after = !is_first_of_range;
            }
        }
        self.direction = direction;
        self.page = page;
        self.index = match direction {
            _ if self.page.entries.is_empty() => None,
            Direction::Forward => Some(0),
            Direction::Backward => Some(self.page.entries.len() - 1),
        };
    }

    /// Returns the request of the page next to the current one, if there may be such a page.
    fn neighbour(&self, direction: Direction) -> Option<PageRequest> {
        let mut range = self.range.clone();
        match direction {
            Direction::Forward if self.has_after => range.start = successor(&self.page.entries.last()?.0),
            Direction::Backward if self.has_before => range.end = Some(self.page.entries.first()?.0.clone()),
            _ => return None,
        }
        Some(PageRequest { range, direction, limit: self.next_limit(direction) })
    }

    /// Returns the number of entries of the next page.
    fn next_limit(&self, direction: Direction) -> usize {
        if direction != self.direction {
            return FIRST_PAGE;
        }
        let bytes: usize = self.page.entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        let mean = bytes / self.page.entries.len().max(1);
        (2 * self.limit).min(MAX_PAGE).min(PAGE_BYTES / mean.max(1)).max(1)
    }

    /// Moves to the neighbour page of the current one.
    fn turn_page(&mut self, direction: Direction) {
        match self.neighbour(direction) {
            Some(request) => {
                self.limit = request.limit;
                self.fetch(request);
            }
            None => self.index = None,
        }
    }

    /// Requests the neighbour page once the cursor has passed half of the current page.
    fn read_ahead(&mut self) {
        let Some(index) = self.index else { return };
        let half = self.page.entries.len() / 2;
        let is_past_half = match self.direction {
            Direction::Forward => index >= half,
            Direction::Backward => index <= half,
        };
        if !is_past_half || self.ahead.is_some() {
            return;
        }
        if let Some(request) = self.neighbour(self.direction) {
            let pending = self.source.request(request.clone());
            self.ahead = Some((request, pending));
        }
    }

    fn entry(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.page.entries.get(self.index?)
    }
}

impl<S: PageSource> StoreIterator for PagedCursor<S> {
    fn valid(&self) -> bool {
        self.index.is_some()
    }

    fn key(&self) -> &[u8] {
        self.entry().map_or(&[], |(key, _)| key)
    }

    fn value(&self) -> &[u8] {
        self.entry().map_or(&[], |(_, value)| value)
    }

    fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    fn seek_to_first(&mut self) {
        self.start(self.range.clone(), Direction::Forward);
    }

    fn seek_to_last(&mut self) {
        self.start(self.range.clone(), Direction::Backward);
    }

    fn seek(&mut self, target: &[u8]) {
        let mut range = self.range.clone();
        if target > range.start.as_slice() {
            range.start = target.to_vec();
        }
        self.start(range, Direction::Forward);
    }

    fn next(&mut self) {
        let Some(index) = self.index else { return };
        if index + 1 < self.page.entries.len() {
            self.index = Some(index + 1);
        } else {
            self.turn_page(Direction::Forward);
        }
        if self.direction == Direction::Forward {
            self.read_ahead();
        }
    }

    fn prev(&mut self) {
        let Some(index) = self.index else { return };
        if index > 0 {
            self.index = Some(index - 1);
        } else {
            self.turn_page(Direction::Backward);
        }
        if self.direction == Direction::Backward {
            self.read_ahead();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_sync::native_locks::Mutex;

    use super::*;

    /// Source of the keys "000" to "999", which records its requests.
    #[derive(Clone, Default)]
    struct Numbers(Arc<Mutex<Vec<PageRequest>>>);

    impl PageSource for Numbers {
        fn request(&self, request: PageRequest) -> PendingPage {
            self.0.lock().push(request.clone());
            Box::new(move || Ok(page(&request)))
        }
    }

    fn page(request: &PageRequest) -> Page {
        let all = (0..1000).map(|n| (format!("{n:03}").into_bytes(), b"v".to_vec()));
        let mut entries: Vec<_> = all.filter(|(key, _)| request.range.contains(key)).collect();
        let has_more = entries.len() > request.limit;
        match request.direction {
            Direction::Forward => entries.truncate(request.limit),
            Direction::Backward => {
                entries.drain(..entries.len().saturating_sub(request.limit));
            }
        }
        Page { entries, has_more }
    }

    fn limits(numbers: &Numbers) -> Vec<usize> {
        numbers.0.lock().iter().map(|request| request.limit).collect()
    }

    #[test]
    fn long_scans_use_growing_pages() {
        for is_forward in [true, false] {
            let numbers = Numbers::default();
            let mut cursor = PagedCursor::new(numbers.clone(), KeyRange::all());
            if is_forward {
                cursor.seek_to_first()
            } else {
                cursor.seek_to_last()
            }
            let mut seen = Vec::new();
            while cursor.valid() {
                seen.push(String::from_utf8(cursor.key().to_vec()).unwrap());
                if is_forward { cursor.next() } else { cursor.prev() }
            }
            if !is_forward {
                seen.reverse();
            }
            assert!(seen.iter().eq((0..1000).map(|n| format!("{n:03}")).collect::<Vec<_>>().iter()));
            assert_eq!(limits(&numbers), [32, 64, 128, 256, 512, 1024]);
        }
    }

    #[test]
    fn short_scan_sends_one_request() {
        let numbers = Numbers::default();
        let mut cursor = PagedCursor::new(numbers.clone(), KeyRange::new(b"100".to_vec(), b"110".to_vec()));
        cursor.seek_to_first();
        for _ in 0..9 {
            cursor.next();
        }
        assert_eq!(cursor.key(), b"109");
        cursor.next();
        assert!(!cursor.valid());
        assert_eq!(limits(&numbers).len(), 1);
    }

    #[test]
    fn turns_within_and_between_pages() {
        let numbers = Numbers::default();
        let mut cursor = PagedCursor::new(numbers.clone(), KeyRange::all());
        cursor.seek(b"500");
        cursor.next();
        cursor.prev();
        assert_eq!((cursor.key(), limits(&numbers).len()), (b"500".as_slice(), 1));
        cursor.prev();
        assert_eq!(cursor.key(), b"499");
        cursor.next();
        assert_eq!(cursor.key(), b"500");
    }
}
