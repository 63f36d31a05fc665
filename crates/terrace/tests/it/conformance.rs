//! Conformance cases of the bindings in `bindings/conformance`, on the API of this crate.
//!
//! ```text
//!   line --words--> Step, or Result of the step before --> Session, which has one database
//! ```
//!
//! The README of that folder describes the grammar. The bindings have drivers of their own, so a
//! case that this driver rejects is wrong in all languages.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the cases, and damages files as another program would"
)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use terrace::{Db, DbIterator, Error, ErrorKind, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions};

/// Features of the API of this crate. `small-disk` is there if the environment names one.
const FEATURES: &[&str] = &["prev", "snapshot", "delete-range", "get-many", "read-only", "repair"];
const SMALL_DISK: &str = "TERRACE_SMALL_DISK";

#[test]
fn every_case_has_its_results() {
    let cases = read_cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/conformance"));
    let mut failures = Vec::new();
    let mut skipped = Vec::new();
    for case in &cases {
        let missing = case.features.iter().find(|feature| !has_feature(feature));
        match missing {
            Some(feature) => skipped.push((case.name.as_str(), feature.as_str())),
            None => failures.extend(case.run().err().map(|failure| format!("{}: {failure}", case.name))),
        }
    }
    for (name, _) in skipped.iter().filter(|(_, feature)| *feature == "small-disk") {
        println!("NOT TESTED: {name}: no small disk");
    }
    println!("{} cases, {} skipped", cases.len(), skipped.len());
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    assert!(cases.len() >= 40, "found {} cases", cases.len());
    assert!(skipped.iter().all(|(_, feature)| matches!(*feature, "small-disk" | "use-after-close")));
}

fn has_feature(feature: &str) -> bool {
    FEATURES.contains(&feature) || (feature == "small-disk" && std::env::var_os(SMALL_DISK).is_some())
}

/// A line of a case: its number and its words.
struct Line {
    number: usize,
    words: Vec<String>,
}

struct Case {
    name: String,
    features: Vec<String>,
    lines: Vec<Line>,
}

fn read_cases(directory: &Path) -> Vec<Case> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut cases: Vec<Case> = Vec::new();
    for path in paths {
        for (number, text) in (1..).zip(fs::read_to_string(path).unwrap().lines()) {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            match words.first().map(String::as_str) {
                None => {}
                Some(first) if first.starts_with('#') => {}
                Some("case") => {
                    cases.push(Case { name: words.remove(1), features: Vec::new(), lines: Vec::new() })
                }
                Some("requires") => cases.last_mut().unwrap().features = words.split_off(1),
                Some(_) => cases.last_mut().unwrap().lines.push(Line { number, words }),
            }
        }
    }
    cases
}

impl Case {
    /// Runs the steps. An error names the line and both results.
    fn run(&self) -> Result<(), String> {
        let on_small_disk = self.features.iter().any(|feature| feature == "small-disk");
        let base = on_small_disk.then(|| std::env::var_os(SMALL_DISK)).flatten().map(PathBuf::from);
        let directory = tempfile::tempdir_in(base.unwrap_or_else(std::env::temp_dir))
            .map_err(|error| error.to_string())?;
        let mut session = Session::new(directory.path().join("database"));
        let mut lines = self.lines.iter().peekable();
        while let Some(line) = lines.next() {
            let found = session.step(&line.words);
            let expected = lines.next_if(|next| is_result(&next.words[0]));
            check(&found, expected)
                .map_err(|failure| format!("line {}: {}: {failure}", line.number, line.words.join(" ")))?;
        }
        Ok(())
    }
}

fn is_result(word: &str) -> bool {
    matches!(word, "expect" | "count" | "missing" | "error")
}

/// Result of a step.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Value(Vec<u8>),
    Entries(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Missing,
}

fn check(found: &Result<Outcome, Error>, expected: Option<&Line>) -> Result<(), String> {
    let words = expected.map(|line| line.words.as_slice()).unwrap_or_default();
    let agrees = match (words, found) {
        ([], Ok(Outcome::Done)) => true,
        // A step whose result does not matter.
        ([], Ok(_)) => true,
        ([verb], Ok(Outcome::Missing)) => verb == "missing",
        ([verb, count], Ok(Outcome::Entries(entries))) if verb == "count" => {
            entries.len() == count.parse::<usize>().unwrap()
        }
        ([verb, rest @ ..], Ok(Outcome::Entries(entries))) if verb == "expect" => {
            *entries == rest.iter().map(|word| entry(word)).collect::<Vec<_>>()
        }
        ([verb, value], Ok(Outcome::Value(found))) if verb == "expect" => *found == bytes(value),
        ([verb, kind, rest @ ..], Err(error)) if verb == "error" => {
            let message = error.to_string();
            is_kind(error, kind) && rest.iter().all(|word| message.contains(word.as_str()))
        }
        _ => false,
    };
    let shown: String = format!("{found:?}").chars().take(300).collect();
    if agrees { Ok(()) } else { Err(format!("found {shown}, expected {}", words.join(" "))) }
}

/// The language-independent kinds of errors.
fn is_kind(error: &Error, kind: &str) -> bool {
    match kind {
        "locked" => error.is_locked(),
        "corruption" => error.kind() == ErrorKind::Corruption,
        "io" => error.kind() == ErrorKind::Io,
        "invalid" => error.kind() == ErrorKind::InvalidArgument,
        "unsupported" => error.kind() == ErrorKind::NotSupported,
        "closed" => error.kind() == ErrorKind::NotSupported && error.to_string().contains("closed"),
        _ => panic!("unknown kind {kind}"),
    }
}

/// Bytes of a word: `\xHH` is a byte, `WORD*N` repeats, `""` is empty.
fn bytes(word: &str) -> Vec<u8> {
    if word == "\"\"" {
        return Vec::new();
    }
    if let Some((part, count)) = word.split_once('*') {
        return bytes(part).repeat(count.parse().unwrap());
    }
    let mut rest = word.as_bytes();
    let mut found = Vec::new();
    while let [first, after @ ..] = rest {
        if let [b'\\', b'x', high, low, after @ ..] = rest {
            let digits = [*high, *low];
            found.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            rest = after;
        } else {
            found.push(*first);
            rest = after;
        }
    }
    found
}

/// Entry of the word `KEY=VALUE`, or a key without a value.
fn entry(word: &str) -> (Vec<u8>, Option<Vec<u8>>) {
    match word.split_once('=') {
        Some((key, value)) => (bytes(key), Some(bytes(value))),
        None => (bytes(word), None),
    }
}

/// State of a running case.
struct Session {
    directory: PathBuf,
    db: Option<Db>,
    snapshots: HashMap<String, Snapshot>,
    iterators: HashMap<String, DbIterator>,
}

impl Session {
    fn new(directory: PathBuf) -> Session {
        Session { directory, db: None, snapshots: HashMap::new(), iterators: HashMap::new() }
    }

    fn step(&mut self, words: &[String]) -> Result<Outcome, Error> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["open", how @ ..] => self.open(how.first().copied())?,
            ["close"] => self.close()?,
            ["put", key, value, sync @ ..] => self.db().put_with(bytes(key), bytes(value), &synced(sync))?,
            ["delete", key, sync @ ..] => self.db().delete_with(bytes(key), &synced(sync))?,
            ["batch", operations @ ..] => self.db().write(&batch(operations))?,
            ["get", key, at @ ..] => {
                let value = match at {
                    ["at", name] => self.snapshots[*name].get(bytes(key))?,
                    _ => self.db().get(bytes(key))?,
                };
                return Ok(value.map_or(Outcome::Missing, Outcome::Value));
            }
            ["get-many", keys @ ..] => {
                let keys: Vec<Vec<u8>> = keys.iter().map(|key| bytes(key)).collect();
                let values = self.db().multi_get(&keys)?;
                return Ok(Outcome::Entries(keys.into_iter().zip(values).collect()));
            }
            ["scan", selection @ ..] => return self.scan(selection),
            ["delete-range", from, to] => self.db().delete_range(bytes(from)..bytes(to))?,
            ["fill", count, size] => self.fill(count.parse().unwrap(), size.parse().unwrap())?,
            ["snapshot", name] => drop(self.snapshots.insert((*name).into(), self.db().snapshot())),
            ["release", name] => {
                self.snapshots.remove(*name);
                self.iterators.remove(*name);
            }
            ["iterator", name, at @ ..] => {
                let iterator = self.db().raw_iter_with(&self.read_options(at));
                self.iterators.insert((*name).into(), iterator);
            }
            ["compact"] => self.db().compact_range(None, None)?,
            ["repair"] => drop(terrace::repair(&self.directory, &options(), &Default::default())?),
            ["destroy"] => terrace::destroy(&self.directory, &options())?,
            [motion, name, key @ ..] if self.iterators.contains_key(*name) => {
                return self.move_iterator(motion, name, key.first().copied());
            }
            _ => self.change_files(&words),
        }
        Ok(Outcome::Done)
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("a case of this driver does not use a closed database")
    }

    fn open(&mut self, how: Option<&str>) -> Result<(), Error> {
        let opened = match how {
            None => Db::open(&self.directory, &options()),
            Some("existing") => Db::open(&self.directory, &options().create_if_missing(false)),
            Some("new") => Db::open(&self.directory, &options().error_if_exists(true)),
            Some("read-only") => Db::open_read_only(&self.directory, &options()),
            Some(other) => panic!("unknown way to open {other}"),
        };
        self.db = Some(opened?);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        self.iterators.clear();
        self.db.take().map_or(Ok(()), Db::close)
    }

    fn read_options(&self, at: &[&str]) -> ReadOptions {
        match at {
            ["at", name] => ReadOptions::default().snapshot(self.snapshots[*name].clone()),
            _ => ReadOptions::default(),
        }
    }

    fn scan(&self, selection: &[&str]) -> Result<Outcome, Error> {
        let mut options = ReadOptions::default();
        let mut limit = usize::MAX;
        let mut reverse = false;
        let mut words = selection.iter().copied();
        while let Some(word) = words.next() {
            let mut argument = || words.next().expect("an argument");
            match word {
                "from" => options.lower_bound = Some(bytes(argument())),
                "to" => options.upper_bound = Some(bytes(argument())),
                "prefix" => options.prefix = Some(bytes(argument())),
                "limit" => limit = argument().parse().unwrap(),
                "at" => options.snapshot = Some(self.snapshots[argument()].clone()),
                "reverse" => reverse = true,
                _ => panic!("unknown word {word}"),
            }
        }
        let iter = self.db().iter_with(&options);
        let found: Result<Vec<_>, Error> =
            if reverse { iter.rev().take(limit).collect() } else { iter.take(limit).collect() };
        Ok(Outcome::Entries(found?.into_iter().map(|(key, value)| (key, Some(value))).collect()))
    }

    fn fill(&self, count: usize, size: usize) -> Result<(), Error> {
        let value = vec![b'v'; size];
        (0..count).try_for_each(|number| self.db().put(format!("k{number:08}"), &value))
    }

    fn move_iterator(&mut self, motion: &str, name: &str, key: Option<&str>) -> Result<Outcome, Error> {
        let iterator = self.iterators.get_mut(name).unwrap();
        match motion {
            "first" => iterator.seek_to_first(),
            "last" => iterator.seek_to_last(),
            "next" => iterator.next(),
            "prev" => iterator.prev(),
            "seek" => iterator.seek(&bytes(key.unwrap())),
            _ => panic!("unknown step {motion}"),
        }
        iterator.status()?;
        if !iterator.valid() {
            return Ok(Outcome::Missing);
        }
        Ok(Outcome::Entries(vec![(iterator.key().to_vec(), Some(iterator.value().to_vec()))]))
    }

    /// Steps on the files of a closed database.
    fn change_files(&self, words: &[&str]) {
        match words {
            ["damage", suffix, offset] => {
                self.each_file(suffix, |path| damage(path, offset.parse().unwrap()))
            }
            ["truncate", suffix, length] => self.each_file(suffix, |path| {
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(length.parse().unwrap()).unwrap();
            }),
            ["remove", suffix] => self.each_file(suffix, |path| fs::remove_file(path).unwrap()),
            ["protect"] => remount("ro"),
            ["unprotect"] => remount("rw"),
            _ => panic!("unknown step {words:?}"),
        }
    }

    fn each_file(&self, suffix: &str, change: impl Fn(&Path)) {
        let mut paths = fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().path());
        let changed = paths.by_ref().filter(|path| path.to_str().unwrap().ends_with(suffix));
        let count = changed.map(|path| change(&path)).count();
        assert!(count > 0, "no file ends in {suffix}");
    }
}

fn options() -> Options {
    Options::default().create_if_missing(true)
}

fn synced(words: &[&str]) -> WriteOptions {
    WriteOptions::default().sync(words == ["sync"])
}

fn batch(operations: &[&str]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for operation in operations {
        match (operation.strip_prefix('+').map(entry), operation.strip_prefix('-')) {
            (Some((key, value)), _) => _ = batch.put(&key, value.unwrap()),
            (None, Some(key)) => _ = batch.delete(bytes(key)),
            (None, None) => panic!("unknown operation {operation}"),
        }
    }
    batch
}

/// Inverts the byte at `offset`. A negative offset counts from the end.
fn damage(path: &Path, offset: isize) {
    let mut content = fs::read(path).unwrap();
    let index = if offset < 0 { content.len().wrapping_add_signed(offset) } else { offset.unsigned_abs() };
    content[index] = !content[index];
    fs::write(path, content).unwrap();
}

fn remount(how: &str) {
    let disk = std::env::var_os(SMALL_DISK).expect("a case that protects its disk has one");
    let status = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(disk).status().unwrap();
    assert!(status.success());
}
