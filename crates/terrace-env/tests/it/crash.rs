//! What a crash leaves of files in memory: writes, syncs, a loss, and what a restart finds.

use std::collections::BTreeSet;
use std::path::Path;

use terrace_env::mem::{Crash, DataLoss, MemFs, NameLoss, PROFILES, PowerLoss};
use terrace_env::{FileSystem, LockMode};

use crate::{names, read, write};

fn power(data: DataLoss, names: NameLoss, seed: u64) -> Crash {
    Crash::Power(PowerLoss { data, names, seed })
}

/// The root directory as text: `name=contents`, in the order of the names.
fn show(fs: &MemFs) -> String {
    let root = Path::new("/");
    let show_file = |name: &str| {
        let path = root.join(name);
        let found = if fs.is_dir(&path).unwrap() { b"/".to_vec() } else { read(fs, &path) };
        format!("{name}={}", found.escape_ascii())
    };
    names(fs, root).split_whitespace().map(show_file).collect::<Vec<_>>().join(" ")
}

/// Runs a script on an empty file system. `a+xy` appends xy to a and flushes; `a!` syncs a; `/!` syncs the
/// directory; `a>b` renames; `-a` removes.
fn script(text: &str) -> MemFs {
    let fs = MemFs::new();
    for step in text.split(' ').filter(|step| !step.is_empty()) {
        if step == "/!" {
            fs.sync_dir(Path::new("/")).unwrap();
        } else if let Some((path, data)) = step.split_once('+') {
            let mut file = fs.append(Path::new(path)).unwrap();
            file.append(data.as_bytes()).unwrap();
            file.close().unwrap();
        } else if let Some(path) = step.strip_suffix('!') {
            fs.append(Path::new(path)).unwrap().sync().unwrap();
        } else if let Some((from, to)) = step.split_once('>') {
            fs.rename(Path::new(from), Path::new(to)).unwrap();
        } else if let Some(path) = step.strip_prefix('-') {
            fs.remove(Path::new(path)).unwrap();
        }
    }
    fs
}

/// Every outcome that a loss can have, over many seeds.
fn outcomes(fs: &MemFs, data: DataLoss, names: NameLoss) -> BTreeSet<String> {
    (0..300).map(|seed| show(&fs.crash(&power(data, names, seed)))).collect()
}

#[track_caller]
fn check(steps: &str, data: DataLoss, names: NameLoss, expect: &[&str]) {
    let found = outcomes(&script(steps), data, names);
    assert_eq!(found, expect.iter().map(|&outcome| outcome.to_owned()).collect(), "after {steps}");
}

const NO_DATA_LOSS: DataLoss = DataLoss::Nothing;
const NO_NAME_LOSS: NameLoss = NameLoss::Nothing;

#[test]
fn everything_unsynced_is_lost() {
    let check = |steps, expect| check(steps, DataLoss::Everything, NameLoss::Everything, &[expect]);
    check("a+1", "");
    check("a+1 a!", ""); // a file's sync does not save its name
    check("a+1 /!", "a="); // a directory's sync does not save bytes
    check("a+1 a! /!", "a=1");
    check("a+1 a! /! a+2", "a=1");
    check("a+1 a! /! a>b", "a=1");
    check("a+1 a! /! a>b /!", "b=1");
    check("a+1 a! /! -a", "a=1");
    check("a+1 a! /! -a /!", "");
    check("a+1 /! a>b /! b+2 b!", "b=12");
}

#[test]
fn names_survive_without_data() {
    check("a+1 a! a>b c+3", DataLoss::Everything, NO_NAME_LOSS, &["b=1 c="]);
    check("a+old a! /! b+new b>a", DataLoss::Everything, NO_NAME_LOSS, &["a="]);
}

#[test]
fn ends_of_files_are_lost() {
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
    fs.append(path).unwrap().sync().unwrap();
    let log = fs.create_log(Path::new("log"), 1).unwrap();
    log.store(0, b"head", &[b'o'; 1024]).unwrap();
    log.sync().unwrap();
    log.store(0, b"head", &[b'x'; 1024]).unwrap();
    let mut kinds = BTreeSet::new();
    for seed in 0..1000 {
        let image = fs.crash(&power(DataLoss::Sectors, NO_NAME_LOSS, seed));
        assert_eq!(read(&image, path), [b'o'; 1024], "synced bytes, seed {seed}");
        let bytes = read(&image, Path::new("log"));
        assert_eq!(bytes.len(), 32 * 1024);
        assert!(bytes[1028..].iter().all(|&byte| byte == 0), "past the store, seed {seed}");
        let kind = |piece: &[u8]| match piece {
            [b'x', b'x', b'x', ..] => 'x',
            [b'o', b'o', b'o', ..] => 'o',
            [0, 0, 0, ..] => '0',
            _ => '?',
        };
        kinds.insert([kind(&bytes[4..512]), kind(&bytes[512..1024])]);
    }
    let all = ['x', 'o', '0', '?'];
    let all: BTreeSet<_> = all.into_iter().flat_map(|first| all.map(|second| [first, second])).collect();
    assert_eq!(kinds, all);
}

#[test]
fn length_arrives_before_data() {
    let fs = script("a+1 a! a+22 a+333");
    let found: Vec<Vec<u8>> = (0..300)
        .map(|seed| read(&fs.crash(&power(DataLoss::AllButLength, NO_NAME_LOSS, seed)), Path::new("a")))
        .collect();
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
        let bytes = read(&fs.crash(&power(DataLoss::LastSectorTorn, NO_NAME_LOSS, seed)), Path::new("a"));
        assert!(bytes.len() <= 600 && bytes[..512] == [b'x'; 512], "whole sectors, seed {seed}");
        cuts.insert(bytes.iter().position(|&byte| byte != b'x').unwrap_or(bytes.len()));
    }
    assert!(cuts.len() > 60 && cuts.iter().all(|cut| (512..600).contains(cut)), "{cuts:?}");
}

#[test]
fn any_names_are_lost_in_any_order() {
    let check = |steps, expect: &[&str]| check(steps, NO_DATA_LOSS, NameLoss::AnySubset, expect);
    check("a+1 b+2", &["", "a=1", "b=2", "a=1 b=2"]);
    check("a+1 /! b+2 -a", &["", "a=1", "b=2", "a=1 b=2"]); // the removal may arrive before the creation
    check("a+1 /! a>b", &["a=1", "b=1"]); // never both, never neither
    check("c+old t+new /! t>c", &["c=old t=new", "c=new"]);
    let all = ["a=1 b=2", "b=2 c=1", "a=1 c=2", "c=2", "c=1"]; // the last: both renames, the second one first
    check("a+1 b+2 /! a>c b>c", &all);
}

/// A rename between directories is durable with the sync of either, and the old name does not come back when the
/// other is synced later.
#[test]
fn rename_between_directories() {
    let (root, sub) = (Path::new("/"), Path::new("/sub"));
    for (first, second) in [(root, sub), (sub, root)] {
        let fs = MemFs::new();
        fs.create_dir(sub).unwrap();
        fs.sync_dir(root).unwrap();
        write(&fs, Path::new("/a"), b"1");
        fs.rename(Path::new("/a"), Path::new("/sub/b")).unwrap();
        let found = |fs: &MemFs| {
            let image = fs.crash(&power(NO_DATA_LOSS, NameLoss::Everything, 0));
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
    let check = |steps, expect| check(steps, NO_DATA_LOSS, NameLoss::NewFiles, &[expect]);
    check("a+1 b+2", "");
    check("a+1 a! b+2", "a=1"); // any sync counts as one of the directory
    check("a+1 /! b+2", "a=1");
    check("a+1 a! -a b+2", "");
}

#[test]
fn kill_loses_only_buffers_and_locks() {
    let fs = script("a+1 b+2 -b");
    let _lock = fs.lock(Path::new("LOCK"), LockMode::Exclusive).unwrap();
    let mut file = fs.append(Path::new("a")).unwrap();
    file.append(b"2").unwrap();
    file.flush().unwrap();
    file.append(b"3").unwrap();
    let image = fs.crash(&Crash::Kill);
    assert_eq!(show(&image), "LOCK= a=12");
    image.lock(Path::new("LOCK"), LockMode::Exclusive).unwrap();
    // All that a restart found is durable.
    assert_eq!(show(&image.crash(&power(DataLoss::Everything, NameLoss::Everything, 0))), "LOCK= a=12");
}

#[test]
fn synced_state_survives_every_profile() {
    let fs = script("a+1 a! b+2 b! /! c+3 c! c>b /!");
    for profile in PROFILES {
        for seed in 0..100 {
            assert_eq!(show(&fs.crash(&profile.with_seed(seed))), "a=1 b=3", "{}, seed {seed}", profile.name);
        }
    }
}

/// A store that forgets to sync must fail every profile that is about what it forgot: else the model proves nothing.
#[test]
fn naive_store_fails() {
    let fs = script("CURRENT+old CURRENT! /! t+new t>CURRENT");
    for profile in ["P2 ends of files", "P3 sectors", "P4 length before data", "P6 torn sector", "P5 names"] {
        let profile = PROFILES.iter().find(|row| row.name == profile).unwrap();
        let bad = (0..100).any(|seed| show(&fs.crash(&profile.with_seed(seed))) != "CURRENT=new");
        assert!(bad, "{} lets it pass", profile.name);
    }
}

#[test]
fn same_seed_same_image() {
    let fs = script("a+123 b+456 b>c -a a+789 a! b+1");
    for profile in PROFILES {
        for seed in 0..20 {
            let image = || show(&fs.crash(&profile.with_seed(seed)));
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
    let before = free.mutations();
    run(&free.fork()).unwrap();
    let found: Vec<String> = (0..6)
        .map(|k| {
            let fs = free.fork();
            fs.freeze_at(before + k);
            assert_eq!((run(&fs).is_ok(), fs.mutations()), (k == 5, before + k));
            let lost = fs.crash(&power(DataLoss::Everything, NameLoss::Everything, 0));
            format!("{} | {}", show(&fs.crash(&Crash::Kill)), show(&lost))
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

/// A process can be killed between the stores of a record: each is a crash point, and none shows a head without
/// its body.
#[test]
fn killed_within_a_store() {
    let stages: Vec<String> = (0..4)
        .map(|k| {
            let fs = MemFs::new();
            let log = fs.create_log(Path::new("log"), 1).unwrap();
            fs.freeze_at(fs.mutations() + k);
            let _ = log.store(0, b"check+head", b"body");
            read(&fs, Path::new("log"))[..14].escape_ascii().to_string()
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

#[test]
fn fork_is_independent() {
    let fs = script("a+1");
    let fork = fs.fork();
    write(&fork, Path::new("b"), b"2");
    fork.append(Path::new("a")).unwrap().append(b"x").unwrap();
    assert_eq!((show(&fs), show(&fork)), ("a=1".into(), "a=1x b=2".into()));
    assert_eq!(show(&fork.crash(&power(DataLoss::Everything, NO_NAME_LOSS, 0))), "a= b=");
}
