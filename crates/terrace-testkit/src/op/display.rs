//! Text form of operations, for failure reports.

use std::fmt;

use super::{
    IteratorBounds, IteratorMove, LifecycleOp, MissingFile, Op, Slot, ValueSpec, Write, numbered_key,
};

struct DisplayKey<'a>(&'a [u8]);

impl fmt::Display for DisplayKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

struct DisplayBound<'a>(&'a Option<Vec<u8>>);

impl fmt::Display for DisplayBound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => DisplayKey(key).fmt(f),
            None => f.write_str("_"),
        }
    }
}

struct DisplayEntries<'a>(&'a [(Vec<u8>, ValueSpec)]);

impl fmt::Display for DisplayEntries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.0.iter().map(|(key, value)| format!("{} {value}", DisplayKey(key)));
        f.write_str(&entries.collect::<Vec<_>>().join("; "))
    }
}

struct DisplaySnapshot(Option<Slot>);

impl fmt::Display for DisplaySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |slot| write!(f, " at s{slot}"))
    }
}

struct DisplaySync(bool);

impl fmt::Display for DisplaySync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { " sync" } else { "" })
    }
}

impl fmt::Display for ValueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of #{:x}", self.len, self.seed)
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put { key, value } => write!(f, "put {} {value}", DisplayKey(key)),
            Write::Delete { key } => write!(f, "delete {}", DisplayKey(key)),
        }
    }
}

impl fmt::Display for IteratorBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} {})", DisplayBound(&self.lower), DisplayBound(&self.upper))?;
        self.prefix.as_ref().map_or(Ok(()), |prefix| write!(f, " prefix {}", DisplayKey(prefix)))
    }
}

impl fmt::Display for IteratorMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IteratorMove::SeekToFirst => f.write_str("seek to first"),
            IteratorMove::SeekToLast => f.write_str("seek to last"),
            IteratorMove::Seek(key) => write!(f, "seek {}", DisplayKey(key)),
            IteratorMove::Next => f.write_str("next"),
            IteratorMove::Prev => f.write_str("prev"),
        }
    }
}

impl fmt::Display for LifecycleOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LifecycleOp::Kill => "kill, open",
            LifecycleOp::PowerCut => "power cut, open",
            LifecycleOp::Repair(MissingFile::None) => "close, repair, open",
            LifecycleOp::Repair(MissingFile::Current) => "close, lose CURRENT, repair, open",
            LifecycleOp::Repair(MissingFile::Manifest) => "close, lose the MANIFEST, repair, open",
            LifecycleOp::Destroy => "close, destroy, create",
            LifecycleOp::Copy => "close, copy the files, open the copy",
            LifecycleOp::Verify => "close, verify, open",
            LifecycleOp::ReadOnly => "close, read, open",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Put { key, value, sync } => {
                write!(f, "put {} {value}{}", DisplayKey(key), DisplaySync(*sync))
            }
            Op::Delete { key, sync } => write!(f, "delete {}{}", DisplayKey(key), DisplaySync(*sync)),
            Op::Batch { writes, sync } => {
                let writes: Vec<String> = writes.iter().map(Write::to_string).collect();
                write!(f, "batch {{ {} }}{}", writes.join("; "), DisplaySync(*sync))
            }
            Op::Get { key, snapshot } => write!(f, "get {}{}", DisplayKey(key), DisplaySnapshot(*snapshot)),
            Op::MultiGet { first, count, snapshot } => {
                write!(
                    f,
                    "multi-get of {count} keys from {}{}",
                    DisplayKey(&numbered_key(*first)),
                    DisplaySnapshot(*snapshot)
                )
            }
            Op::Scan { snapshot } => write!(f, "scan{}", DisplaySnapshot(*snapshot)),
            Op::TakeSnapshot { slot } => write!(f, "snapshot s{slot}"),
            Op::ReleaseSnapshot { slot } => write!(f, "release s{slot}"),
            Op::OpenIterator { slot, snapshot, range } => {
                write!(f, "iterator i{slot} {range}{}", DisplaySnapshot(*snapshot))
            }
            Op::MoveIterator { slot, movement } => write!(f, "i{slot} {movement}"),
            Op::CloseIterator { slot } => write!(f, "close i{slot}"),
            Op::Flush => f.write_str("flush"),
            Op::CompactRange { begin, end } => {
                write!(f, "compact {} {}", DisplayBound(begin), DisplayBound(end))
            }
            Op::DeleteRange { begin, end } => {
                write!(f, "delete range [{} {})", DisplayBound(begin), DisplayBound(end))
            }
            Op::Ingest { entries } => write!(f, "ingest {{ {} }}", DisplayEntries(entries)),
            Op::BulkLoad { entries } => write!(f, "bulk load {{ {} }}", DisplayEntries(entries)),
            Op::Reopen => f.write_str("reopen"),
            Op::ReopenWith { seed } => write!(f, "reopen with options of {seed:#x}"),
            Op::ApproximateSize { begin, end } => {
                write!(f, "approximate size {} {}", DisplayKey(begin), DisplayKey(end))
            }
            Op::Property { name } => write!(f, "property {name}"),
            Op::Lifecycle(op) => op.fmt(f),
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
    fn text_form_of_operations() {
        let value = ValueSpec { len: 3, seed: 255 };
        check(Op::Put { key: b"a\0".to_vec(), value, sync: true }, r#"put "a\x00" 3 bytes of #ff sync"#);
        let writes = vec![Write::Put { key: b"a".to_vec(), value }, Write::Delete { key: b"b".to_vec() }];
        check(Op::Batch { writes, sync: false }, r#"batch { put "a" 3 bytes of #ff; delete "b" }"#);
        check(Op::Get { key: b"a".to_vec(), snapshot: Some(2) }, r#"get "a" at s2"#);
        let range = IteratorBounds { lower: Some(b"a".to_vec()), upper: None, prefix: Some(b"p".to_vec()) };
        check(Op::OpenIterator { slot: 1, snapshot: None, range }, r#"iterator i1 ["a" _) prefix "p""#);
        check(Op::MoveIterator { slot: 1, movement: IteratorMove::Seek(b"k".to_vec()) }, r#"i1 seek "k""#);
        check(Op::CompactRange { begin: None, end: Some(b"z".to_vec()) }, r#"compact _ "z""#);
        let entries = vec![(b"a".to_vec(), value), (b"b".to_vec(), value)];
        check(Op::Ingest { entries }, r#"ingest { "a" 3 bytes of #ff; "b" 3 bytes of #ff }"#);
    }
}
