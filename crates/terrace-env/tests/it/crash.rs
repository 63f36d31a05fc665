//! Crash images of the file system in memory: writes, syncs, a loss, and the files of a restart.

use std::collections::BTreeSet;
use std::path::Path;

use terrace_env::mem::{
    Crash, DataLoss, DirEntryLoss, FailedSyncEffect, LostSector, MemFs, POWER_LOSS_PROFILES, PersistedPieces,
    PowerLoss,
};
use terrace_env::{FileSystem, LockMode, MappedLogs};

use crate::{names, read, write};

fn power(data: DataLoss, names: DirEntryLoss, seed: u64) -> Crash {
    Crash::PowerLoss(PowerLoss { data, dir_entries: names, persisted: PersistedPieces::Random, seed })
}

/// Returns the root directory as text: `name=contents`, sorted by name.
fn show(fs: &MemFs) -> String {
    let root = Path::new("/");
    let mut files = Vec::new();
    for name in names(fs, root).split_whitespace() {
        let path = root.join(name);
        let contents = if fs.is_dir(&path).unwrap() { b"/".to_vec() } else { read(fs, &path) };
        files.push(format!("{name}={}", contents.escape_ascii()));
    }
    files.join(" ")
}

/// Runs a script on an empty file system. `a+xy` appends xy to a and flushes, `a!` syncs a, `/!`
/// syncs the directory, `a>b` renames, `a=b` links, and `-a` removes.
fn script(text: &str) -> MemFs {
    let fs = MemFs::new();
    for step in text.split(' ').filter(|step| !step.is_empty()) {
        if step == "/!" {
            fs.sync_dir(Path::new("/")).unwrap();
        } else if let Some((path, data)) = step.split_once('+') {
            let mut file = fs.open_append(Path::new(path)).unwrap();
            file.append(data.as_bytes()).unwrap();
            file.close().unwrap();
        } else if let Some(path) = step.strip_suffix('!') {
            fs.open_append(Path::new(path)).unwrap().sync().unwrap();
        } else if let Some((from, to)) = step.split_once('>') {
            fs.rename(Path::new(from), Path::new(to)).unwrap();
        } else if let Some((from, to)) = step.split_once('=') {
            fs.link(Path::new(from), Path::new(to)).unwrap();
        } else if let Some(path) = step.strip_prefix('-') {
            fs.remove(Path::new(path)).unwrap();
        }
    }
    fs
}

/// Returns the crash images of a loss for many seeds.
fn outcomes(fs: &MemFs, data: DataLoss, names: DirEntryLoss) -> BTreeSet<String> {
    (0..300).map(|seed| show(&fs.crash_clone(&power(data, names, seed)))).collect()
}

#[track_caller]
fn check(steps: &str, data: DataLoss, names: DirEntryLoss, expect: &[&str]) {
    let found = outcomes(&script(steps), data, names);
    assert_eq!(found, expect.iter().map(|&outcome| outcome.to_owned()).collect(), "after {steps}");
}

const NO_DATA_LOSS: DataLoss = DataLoss::Nothing;
const NO_NAME_LOSS: DirEntryLoss = DirEntryLoss::Nothing;

#[test]
fn everything_unsynced_is_lost() {
    let check = |steps, expect| check(steps, DataLoss::Everything, DirEntryLoss::Everything, &[expect]);
    check("a+1", "");
    check("a+1 a!", ""); // A sync of a file does not save its name.
    check("a+1 /!", "a="); // A sync of a directory does not save bytes.
    check("a+1 a! /!", "a=1");
    check("a+1 a! /! a+2", "a=1");
    check("a+1 a! /! a>b", "a=1");
    check("a+1 a! /! a>b /!", "b=1");
    check("a+1 a! /! -a", "a=1");
    check("a+1 a! /! -a /!", "");
    check("a+1 /! a>b /! b+2 b!", "b=12");
    check("a+1 a! /! a=b", "a=1"); // A link is a name like any other.
    check("a+1 a! /! a=b /!", "a=1 b=1");
    check("a+1 a! /! a=b /! -a /!", "b=1");
}

#[test]
fn names_survive_without_data() {
    check("a+1 a! a>b c+3", DataLoss::Everything, NO_NAME_LOSS, &["b=1 c="]);
    check("a+old a! /! b+new b>a", DataLoss::Everything, NO_NAME_LOSS, &["a="]);
}

#[test]
fn file_tails_are_lost() {
    let expect = ["a=1", "a=12", "a=123"];
    check("a+1 a! a+2 a+3", DataLoss::Suffix, NO_NAME_LOSS, &expect);
    let expect = ["a= b=", "a= b=2", "a=1 b=", "a=1 b=2"];
    check("a+1 b+2", DataLoss::Suffix, NO_NAME_LOSS, &expect);
}

#[test]
fn any_sectors_are_lost() {
    let fs = MemFs::new();
    let path = Path::new("a");
    write(&fs, path, &[b'o'; 1024]);
    fs.open_append(path).unwrap().sync().unwrap();
    let log = fs.create_log(Path::new("log"), 1, MappedLogs::Always).unwrap();
    log.write_at(0, b"head", &[b'o'; 1024]).unwrap();
    log.sync().unwrap();
    log.write_at(0, b"head", &[b'x'; 1024]).unwrap();
    let mut kinds = BTreeSet::new();
    for seed in 0..1000 {
        let lost = [LostSector::OldBytes, LostSector::Zeros, LostSector::Garbage][seed as usize % 3];
        let loss = DataLoss::Sectors { size: 512, lost };
        let image = fs.crash_clone(&power(loss, NO_NAME_LOSS, seed));
        assert_eq!(read(&image, path), [b'o'; 1024], "synced bytes, seed {seed}");
        let bytes = read(&image, Path::new("log"));
        assert_eq!(bytes.len(), 32 * 1024);
        assert!(bytes[1028..].iter().all(|&byte| byte == 0), "after the record, seed {seed}");
        let kind = |piece: &[u8]| match piece {
            [b'x', b'x', b'x', ..] => 'x',
            [b'o', b'o', b'o', ..] => 'o',
            [0, 0, 0, ..] => '0',
            _ => '?',
        };
        kinds.insert([kind(&bytes[4..512]), kind(&bytes[512..1024])]);
    }
    let mut expect = BTreeSet::new();
    for lost in ['o', '0', '?'] {
        expect.extend([['x', 'x'], ['x', lost], [lost, 'x'], [lost, lost]]);
    }
    assert_eq!(kinds, expect);
}

#[test]
fn length_arrives_before_data() {
    let fs = script("a+1 a! a+22 a+333");
    let mut found = Vec::new();
    for seed in 0..300 {
        let loss = power(DataLoss::LengthBeforeData { garbage: seed % 2 == 0 }, NO_NAME_LOSS, seed);
        found.push(read(&fs.crash_clone(&loss), Path::new("a")));
    }
    assert!(found.iter().all(|bytes| bytes.len() == 6 && bytes[0] == b'1'));
    for expect in [&b"1\0\0\0\0\0"[..], b"122\0\0\0", b"122333"] {
        assert!(found.iter().any(|bytes| bytes == expect), "{}", expect.escape_ascii());
    }
    assert!(found.iter().any(|bytes| bytes[1] != 0 && bytes[1] != b'2'), "garbage");
}

#[test]
fn last_sector_is_torn_at_a_byte() {
    let fs = MemFs::new();
    write(&fs, Path::new("a"), &[b'x'; 600]);
    let mut cuts = BTreeSet::new();
    for seed in 0..500 {
        let bytes =
            read(&fs.crash_clone(&power(DataLoss::TornLastSector, NO_NAME_LOSS, seed)), Path::new("a"));
        assert!(bytes.len() <= 600 && bytes[..512] == [b'x'; 512], "complete sectors, seed {seed}");
        cuts.insert(bytes.iter().position(|&byte| byte != b'x').unwrap_or(bytes.len()));
    }
    assert!(cuts.len() > 60 && cuts.iter().all(|cut| (512..600).contains(cut)), "{cuts:?}");
}

#[test]
fn dir_entries_are_lost_in_any_order() {
    let check = |steps, expect: &[&str]| check(steps, NO_DATA_LOSS, DirEntryLoss::AnySubset, expect);
    check("a+1 b+2", &["", "a=1", "b=2", "a=1 b=2"]);
    // The removal may persist without the earlier creation.
    check("a+1 /! b+2 -a", &["", "a=1", "b=2", "a=1 b=2"]);
    // A rename never leaves both names or neither.
    check("a+1 /! a>b", &["a=1", "b=1"]);
    check("c+old t+new /! t>c", &["c=old t=new", "c=new"]);
    // The last image has both renames, with the second one first.
    check("a+1 b+2 /! a>c b>c", &["a=1 b=2", "b=2 c=1", "a=1 c=2", "c=2", "c=1"]);
}

/// A rename between directories is durable after a sync of either. A later sync of the other
/// directory does not restore the old name.
#[test]
fn rename_between_directories() {
    let root = Path::new("/");
    let sub = Path::new("/sub");
    for (first, second) in [(root, sub), (sub, root)] {
        let fs = MemFs::new();
        fs.create_dir(sub).unwrap();
        fs.sync_dir(root).unwrap();
        write(&fs, Path::new("/a"), b"1");
        fs.rename(Path::new("/a"), Path::new("/sub/b")).unwrap();
        let found = |fs: &MemFs| {
            let image = fs.crash_clone(&power(NO_DATA_LOSS, DirEntryLoss::Everything, 0));
            format!("{} / {}", names(&image, root), names(&image, sub))
        };
        assert_eq!(found(&fs), "sub / ");
        fs.sync_dir(first).unwrap();
        assert_eq!(found(&fs), "sub / b");
        fs.sync_dir(second).unwrap();
        assert_eq!(found(&fs), "sub / b");
    }
}

#[test]
fn leveldbs_own_model() {
    let check = |steps, expect| check(steps, NO_DATA_LOSS, DirEntryLoss::NewFiles, &[expect]);
    check("a+1 b+2", "");
    check("a+1 a! b+2", "a=1"); // Any file sync counts as a sync of the directory.
    check("a+1 /! b+2", "a=1");
    check("a+1 a! -a b+2", "");
}

#[test]
fn kill_loses_only_buffers_and_locks() {
    let fs = script("a+1 b+2 -b");
    let _lock = fs.lock(Path::new("LOCK"), LockMode::Exclusive).unwrap();
    let mut file = fs.open_append(Path::new("a")).unwrap();
    file.append(b"2").unwrap();
    file.flush().unwrap();
    file.append(b"3").unwrap();
    let image = fs.crash_clone(&Crash::Kill);
    assert_eq!(show(&image), "LOCK= a=12");
    image.lock(Path::new("LOCK"), LockMode::Exclusive).unwrap();
    // Everything in a crash image is durable.
    assert_eq!(
        show(&image.crash_clone(&power(DataLoss::Everything, DirEntryLoss::Everything, 0))),
        "LOCK= a=12"
    );
}

#[test]
fn synced_state_survives_every_profile() {
    let fs = script("a+1 a! b+2 b! /! c+3 c! c>b /!");
    for profile in POWER_LOSS_PROFILES {
        for seed in 0..100 {
            assert_eq!(
                show(&fs.crash_clone(&profile.crash_with_seed(seed))),
                "a=1 b=3",
                "{}, seed {seed}",
                profile.name
            );
        }
    }
}

/// Every profile must find a database that omits a sync. Otherwise the model would prove nothing.
#[test]
fn naive_store_fails() {
    let fs = script("CURRENT+old CURRENT! /! t+new t>CURRENT");
    for profile in POWER_LOSS_PROFILES {
        if profile.dir_entries == DirEntryLoss::Everything || profile.name.starts_with("LevelDB") {
            continue;
        }
        let bad = (0..100).any(|seed| show(&fs.crash_clone(&profile.crash_with_seed(seed))) != "CURRENT=new");
        assert!(bad, "{} does not find it", profile.name);
    }
}

#[test]
fn same_seed_same_image() {
    let fs = script("a+123 b+456 b>c -a a+789 a! b+1");
    for profile in POWER_LOSS_PROFILES {
        for seed in 0..20 {
            let image = || show(&fs.crash_clone(&profile.crash_with_seed(seed)));
            assert_eq!(image(), image());
        }
    }
}

#[test]
fn frozen_at_every_call() {
    let run = |fs: &MemFs| -> terrace_env::Result<()> {
        let mut file = fs.create(Path::new("t"))?;
        file.append(b"new")?;
        file.sync()?;
        file.close()?;
        fs.rename(Path::new("t"), Path::new("CURRENT"))?;
        fs.sync_dir(Path::new("/"))
    };
    let free = script("CURRENT+old CURRENT! /!");
    let before = free.mutation_count();
    run(&free.fork()).unwrap();
    let found: Vec<String> = (0..6)
        .map(|k| {
            let fs = free.fork();
            fs.freeze_at(before + k);
            assert_eq!((run(&fs).is_ok(), fs.mutation_count()), (k == 5, before + k));
            let lost = fs.crash_clone(&power(DataLoss::Everything, DirEntryLoss::Everything, 0));
            format!("{} | {}", show(&fs.crash_clone(&Crash::Kill)), show(&lost))
        })
        .collect();
    let expect = [
        "CURRENT=old | CURRENT=old",
        "CURRENT=old t= | CURRENT=old",
        "CURRENT=old t=new | CURRENT=old",
        "CURRENT=old t=new | CURRENT=old",
        "CURRENT=new | CURRENT=old",
        "CURRENT=new | CURRENT=new",
    ];
    assert_eq!(found, expect);
}

/// A process can be killed between the writes of a record. Each of them is a crash point, and none
/// shows a head without its body.
#[test]
fn killed_within_a_log_write() {
    let stages: Vec<String> = (0..4)
        .map(|k| {
            let fs = MemFs::new();
            let log = fs.create_log(Path::new("log"), 1, MappedLogs::Always).unwrap();
            log.write_at(0, b"first head", b"").unwrap();
            fs.freeze_at(fs.mutation_count() + k);
            let _ = log.write_at(10, b"check+head", b"body");
            read(&fs, Path::new("log"))[10..24].escape_ascii().to_string()
        })
        .collect();
    let zeros = |n: usize| "\\x00".repeat(n);
    assert_eq!(
        stages,
        [
            zeros(14),
            format!("{}body", zeros(10)),
            format!("check+{}body", zeros(4)),
            "check+headbody".to_owned()
        ]
    );
}

/// The persisted sets of a profile are: none, all, all but one, only one, the first few, random.
#[test]
fn every_crash_of_a_profile() {
    let fs = script("a+1 b+2 c+3 /! -a -b -c");
    let names = POWER_LOSS_PROFILES.iter().find(|row| row.name == "P5 directory entries").unwrap();
    let choices = fs.power_losses(names, 3, 0);
    let shown: Vec<String> = choices.iter().map(|crash| show(&fs.crash_clone(crash))).collect();
    assert_eq!(shown[..2], ["a=1 b=2 c=3", ""]);
    assert_eq!(shown.len(), 2 + 3 * 3 + 6, "none, all, three of each kind, and six random ones");
    for expected in ["a=1", "b=2", "c=3", "a=1 b=2", "a=1 c=3", "b=2 c=3"] {
        assert!(shown.iter().any(|found| found == expected), "{expected}");
    }
    // Without pending changes, the profile has no crashes.
    assert_eq!(script("a+1 a! /!").power_losses(names, 3, 0), []);
}

/// Each page persists in its state of some moment: a page never has half a write, and the moments
/// of two pages are independent.
#[test]
fn pages_persisted_at_different_times() {
    let fs = MemFs::new();
    let log = fs.create_log(Path::new("log"), 1, MappedLogs::Always).unwrap();
    log.write_at(0, &[0; 4], &[0; 2044]).unwrap();
    log.sync().unwrap();
    for round in 1..=3u8 {
        log.write_at(0, &[round; 4], &[round; 2044]).unwrap();
    }
    let mut kinds = BTreeSet::new();
    for seed in 0..1000 {
        let image = fs.crash_clone(&power(DataLoss::Pages { size: 1024 }, NO_NAME_LOSS, seed));
        let bytes = read(&image, Path::new("log"));
        assert_eq!(bytes.len(), 32 * 1024);
        assert!(bytes[1024..2048].iter().all(|&byte| byte == bytes[1024]), "seed {seed}");
        kinds.insert([bytes[4], bytes[1024]]);
    }
    assert_eq!(kinds.len(), 16, "{kinds:?}");
}

/// A crash point equals the state of a file system that is frozen at the same call.
#[test]
fn crash_points_equal_frozen_states() {
    let run = |fs: &MemFs| -> terrace_env::Result<()> {
        let mut file = fs.create(Path::new("t"))?;
        file.append(b"new")?;
        file.sync()?;
        fs.rename(Path::new("t"), Path::new("u"))?;
        fs.sync_dir(Path::new("/"))
    };
    let recorded = MemFs::new();
    assert!(recorded.take_crash_points().is_empty());
    run(&recorded).unwrap();
    let points = recorded.take_crash_points();
    assert_eq!(points.len() as u64, recorded.mutation_count());
    for (call, point) in points.iter().enumerate() {
        let frozen = MemFs::new();
        frozen.freeze_at(call as u64);
        let _ = run(&frozen);
        assert_eq!((show(point), point.mutation_count()), (show(&frozen), call as u64));
        let lost = power(DataLoss::Everything, DirEntryLoss::Everything, 0);
        assert_eq!(show(&point.crash_clone(&lost)), show(&frozen.crash_clone(&lost)));
    }
    assert!(recorded.take_crash_points().is_empty());
}

/// A sync fails and marks its pages clean. The page cache keeps or drops them, and a power cut
/// loses them. Later synced writes are durable without them.
#[test]
fn failed_sync_loses_writes() {
    let check = |effect, live: &str, lost: &str| {
        let fs = script("a+1 a! /!");
        let mut file = fs.open_append(Path::new("a")).unwrap();
        file.append(b"2").unwrap();
        fs.inject_sync_failure(0, effect);
        assert!(file.sync().is_err());
        file.append(b"3").unwrap();
        file.sync().unwrap();
        drop(file);
        assert_eq!(show(&fs), live);
        assert_eq!(show(&fs.crash_clone(&Crash::Kill)), live);
        for profile in POWER_LOSS_PROFILES {
            assert_eq!(show(&fs.crash_clone(&profile.crash_with_seed(1))), lost, "{}", profile.name);
        }
    };
    check(FailedSyncEffect::KeepsPages, "a=123", "a=1\\x003");
    check(FailedSyncEffect::DropsPages, "a=13", "a=13");
}

#[test]
fn corruption_is_durable() {
    let fs = script("a+123 a! /!");
    fs.corrupt(Path::new("a"), |bytes| bytes[1] = b'x').unwrap();
    let lost = power(DataLoss::Everything, DirEntryLoss::Everything, 0);
    assert_eq!((show(&fs), show(&fs.crash_clone(&lost))), ("a=1x3".into(), "a=1x3".into()));
}

#[test]
fn fork_is_independent() {
    let fs = script("a+1");
    let fork = fs.fork();
    write(&fork, Path::new("b"), b"2");
    fork.open_append(Path::new("a")).unwrap().append(b"x").unwrap();
    assert_eq!((show(&fs), show(&fork)), ("a=1".into(), "a=1x b=2".into()));
    assert_eq!(show(&fork.crash_clone(&power(DataLoss::Everything, NO_NAME_LOSS, 0))), "a= b=");
}
