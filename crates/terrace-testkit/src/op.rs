//! Operations on a database, as data: they can be printed, replayed, cut short.
//!
//! Snapshots and cursors live in numbered slots. An operation on an empty slot does nothing, so every part of a list
//! of operations is itself a valid list: that is what shrinking needs.

use std::fmt;

use crate::rng::splitmix;

mod kind;
mod source;

pub use kind::KINDS;
pub(crate) use source::is_property;
pub use source::{Shape, Source, ordinary_key};

/// A value by its length and a seed: a thousand of them cost nothing to keep or to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value {
    /// In bytes.
    pub len: u32,
    /// What the bytes are drawn from.
    pub seed: u32,
}

impl Value {
    /// The bytes: about half of them compress away.
    pub fn bytes(self) -> Vec<u8> {
        let mut state = u64::from(self.seed);
        let mut bytes = Vec::with_capacity(self.len as usize + 32);
        while bytes.len() < self.len as usize {
            let chunk = splitmix(&mut state).to_le_bytes();
            bytes.extend_from_slice(&chunk);
            bytes.extend_from_slice(&chunk);
        }
        bytes.truncate(self.len as usize);
        bytes
    }

    /// True if these are its bytes.
    pub fn is(self, bytes: &[u8]) -> bool {
        let mut state = u64::from(self.seed);
        bytes.len() == self.len as usize
            && bytes.chunks(16).all(|found| {
                let half = splitmix(&mut state).to_le_bytes();
                let (first, second) = found.split_at(found.len().min(half.len()));
                *first == half[..first.len()] && *second == half[..second.len()]
            })
    }
}

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they hold")]
pub enum Write {
    Put { key: Vec<u8>, value: Value },
    Delete { key: Vec<u8> },
}

impl Write {
    /// The key that it changes.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete { key } => key,
        }
    }

    /// What the key has then.
    pub fn value(&self) -> Option<Value> {
        match self {
            Write::Put { value, .. } => Some(*value),
            Write::Delete { .. } => None,
        }
    }
}

/// Which keys a cursor shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// Not below this one.
    pub lower: Option<Vec<u8>>,
    /// Below this one.
    pub upper: Option<Vec<u8>>,
    /// Beginning with this.
    pub prefix: Option<Vec<u8>>,
}

/// A movement of a cursor. `Next` and `Prev` of a cursor that stands nowhere do nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the calls are")]
pub enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    Next,
    Prev,
}

/// The number of a place for a snapshot or a cursor.
pub type Slot = usize;

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named as the calls' arguments are")]
pub enum Op {
    Put {
        key: Vec<u8>,
        value: Value,
        sync: bool,
    },
    Delete {
        key: Vec<u8>,
        sync: bool,
    },
    /// All of it or nothing.
    Batch {
        writes: Vec<Write>,
        sync: bool,
    },
    /// At a snapshot, if its slot holds one.
    Get {
        key: Vec<u8>,
        at: Option<Slot>,
    },
    /// The ordinary keys of so many numbers, one after the other.
    GetMany {
        first: u64,
        count: u64,
        at: Option<Slot>,
    },
    /// Every entry, forwards and backwards.
    Scan {
        at: Option<Slot>,
    },
    /// Takes a snapshot into a slot, dropping the one that was there.
    Take {
        slot: Slot,
    },
    Release {
        slot: Slot,
    },
    /// Opens a cursor in a slot, dropping the one that was there.
    Open {
        slot: Slot,
        at: Option<Slot>,
        range: Range,
    },
    Step {
        slot: Slot,
        step: Step,
    },
    Close {
        slot: Slot,
    },
    Flush,
    Compact {
        begin: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
    },
    /// Close and open again; all slots become empty.
    Reopen,
    /// The same with other options, drawn from the seed.
    ReopenWith {
        seed: u64,
    },
    /// The approximate size of a range.
    Size {
        begin: Vec<u8>,
        end: Vec<u8>,
    },
    Property {
        name: &'static str,
    },
    /// Something happens to the whole database; all slots become empty.
    Upheaval(Upheaval),
}

/// What can happen to a whole database whose files are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upheaval {
    /// The process dies, and the database is opened again.
    Kill,
    /// The power fails, with the loss of everything that was not synced, and the database is opened again.
    PowerCut,
    /// It is closed, harmed, repaired and opened again. Nothing that was stored is lost.
    Repair(Harm),
    /// It is destroyed, and a new one begun at the same place.
    Destroy,
    /// Its closed files are copied to another place, where life goes on; something else happens to the old ones.
    Copy,
    /// It is closed, verified and opened again.
    Verify,
    /// It is closed, read through a handle that can't write, and opened again.
    ReadOnly,
}

/// What a repair has to mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what is gone")]
pub enum Harm {
    Nothing,
    Current,
    Manifest,
}

impl Op {
    /// The changes that it makes, in their order.
    pub fn writes(&self) -> Vec<Write> {
        match self {
            Op::Put { key, value, .. } => vec![Write::Put { key: key.clone(), value: *value }],
            Op::Delete { key, .. } => vec![Write::Delete { key: key.clone() }],
            Op::Batch { writes, .. } => writes.clone(),
            _ => Vec::new(),
        }
    }
}

struct Text<'a>(&'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

struct Limit<'a>(&'a Option<Vec<u8>>);

impl fmt::Display for Limit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => Text(key).fmt(f),
            None => f.write_str("_"),
        }
    }
}

struct At(Option<Slot>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |slot| write!(f, " at s{slot}"))
    }
}

struct Sync(bool);

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { " sync" } else { "" })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of #{:x}", self.len, self.seed)
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put { key, value } => write!(f, "put {} {value}", Text(key)),
            Write::Delete { key } => write!(f, "delete {}", Text(key)),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} {})", Limit(&self.lower), Limit(&self.upper))?;
        self.prefix.as_ref().map_or(Ok(()), |prefix| write!(f, " prefix {}", Text(prefix)))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::First => f.write_str("first"),
            Step::Last => f.write_str("last"),
            Step::Seek(key) => write!(f, "seek {}", Text(key)),
            Step::Next => f.write_str("next"),
            Step::Prev => f.write_str("prev"),
        }
    }
}

impl fmt::Display for Upheaval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Upheaval::Kill => "kill, open",
            Upheaval::PowerCut => "power cut, open",
            Upheaval::Repair(Harm::Nothing) => "close, repair, open",
            Upheaval::Repair(Harm::Current) => "close, lose CURRENT, repair, open",
            Upheaval::Repair(Harm::Manifest) => "close, lose the manifest, repair, open",
            Upheaval::Destroy => "close, destroy, create",
            Upheaval::Copy => "close, copy the files, open the copy",
            Upheaval::Verify => "close, verify, open",
            Upheaval::ReadOnly => "close, read, open",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Put { key, value, sync } => write!(f, "put {} {value}{}", Text(key), Sync(*sync)),
            Op::Delete { key, sync } => write!(f, "delete {}{}", Text(key), Sync(*sync)),
            Op::Batch { writes, sync } => {
                let writes: Vec<String> = writes.iter().map(Write::to_string).collect();
                write!(f, "batch {{ {} }}{}", writes.join("; "), Sync(*sync))
            }
            Op::Get { key, at } => write!(f, "get {}{}", Text(key), At(*at)),
            Op::GetMany { first, count, at } => {
                write!(f, "get {} and the next of {count}{}", Text(&ordinary_key(*first)), At(*at))
            }
            Op::Scan { at } => write!(f, "scan{}", At(*at)),
            Op::Take { slot } => write!(f, "snapshot s{slot}"),
            Op::Release { slot } => write!(f, "release s{slot}"),
            Op::Open { slot, at, range } => write!(f, "cursor c{slot} {range}{}", At(*at)),
            Op::Step { slot, step } => write!(f, "c{slot} {step}"),
            Op::Close { slot } => write!(f, "close c{slot}"),
            Op::Flush => f.write_str("flush"),
            Op::Compact { begin, end } => write!(f, "compact {} {}", Limit(begin), Limit(end)),
            Op::Reopen => f.write_str("reopen"),
            Op::ReopenWith { seed } => write!(f, "reopen with options of {seed:#x}"),
            Op::Size { begin, end } => write!(f, "size {} {}", Text(begin), Text(end)),
            Op::Property { name } => write!(f, "property {name}"),
            Op::Upheaval(what) => what.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(op: Op, text: &str) {
        assert_eq!(op.to_string(), text);
    }

    #[test]
    fn operations_read_as_sentences() {
        let value = Value { len: 3, seed: 255 };
        check(Op::Put { key: b"a\0".to_vec(), value, sync: true }, r#"put "a\x00" 3 bytes of #ff sync"#);
        let writes = vec![Write::Put { key: b"a".to_vec(), value }, Write::Delete { key: b"b".to_vec() }];
        check(Op::Batch { writes, sync: false }, r#"batch { put "a" 3 bytes of #ff; delete "b" }"#);
        check(Op::Get { key: b"a".to_vec(), at: Some(2) }, r#"get "a" at s2"#);
        let range = Range { lower: Some(b"a".to_vec()), upper: None, prefix: Some(b"p".to_vec()) };
        check(Op::Open { slot: 1, at: None, range }, r#"cursor c1 ["a" _) prefix "p""#);
        check(Op::Step { slot: 1, step: Step::Seek(b"k".to_vec()) }, r#"c1 seek "k""#);
        check(Op::Compact { begin: None, end: Some(b"z".to_vec()) }, r#"compact _ "z""#);
    }

    #[test]
    fn a_value_is_its_seed() {
        let (a, b) = (Value { len: 100, seed: 1 }, Value { len: 100, seed: 2 });
        assert_eq!((a.bytes(), a.bytes().len()), (a.bytes(), 100));
        assert_ne!(a.bytes(), b.bytes());
        assert_eq!(Value { len: 0, seed: 9 }.bytes(), b"");
        for len in 0..40 {
            let value = Value { len, seed: 7 };
            let mut bytes = value.bytes();
            assert!(value.is(&bytes));
            for at in 0..bytes.len() {
                bytes[at] ^= 1;
                assert!(!value.is(&bytes));
                bytes[at] ^= 1;
            }
            assert!(!value.is(&[&bytes[..], b"x"].concat()));
        }
    }
}
