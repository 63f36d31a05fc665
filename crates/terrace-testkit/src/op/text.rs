//! Operations as sentences, for whoever reads what went wrong.

use std::fmt;

use super::{Harm, Op, Range, Slot, Step, Upheaval, Value, Write, ordinary_key};

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
            Op::Erase { begin, end } => write!(f, "delete {} up to {}", Limit(begin), Limit(end)),
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
}
