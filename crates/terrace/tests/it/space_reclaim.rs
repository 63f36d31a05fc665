//! Background compactions reclaim the space of deleted entries, without a manual compaction.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace::{CompactionStyle, Comparator, Db, Env, Options, ReadOptions};
use terrace_env::DeterministicScheduler;
use terrace_testkit::rng::Rng;

const KEYS: u32 = 200_000;

/// A database in memory, with a scheduler that runs its background work on request.
struct SpaceDb {
    env: Env,
    background: Arc<DeterministicScheduler>,
    options: Options,
}

impl SpaceDb {
    fn new(change: impl FnOnce(&mut Options)) -> SpaceDb {
        let background = DeterministicScheduler::new(1);
        let env = Env { scheduler: Arc::clone(&background) as _, ..Env::in_memory() };
        let mut options = Options::default().create_if_missing(true).env(env.clone());
        change(&mut options);
        SpaceDb { env, background, options }
    }

    fn open(&self) -> Db {
        Db::open("db", &self.options).unwrap()
    }

    /// Flushes the memtable and runs all resulting compactions.
    fn settle(&self, db: &Db) {
        db.flush().unwrap();
        self.background.run_until_idle();
    }

    /// Returns the number of bytes of all tables.
    fn space(&self) -> u64 {
        let names = self.env.fs.list("db".as_ref()).unwrap();
        let tables = names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb"));
        tables.map(|name| self.env.fs.file_size(&Path::new("db").join(name)).unwrap()).sum()
    }

    /// Returns the current size of the tables in percent of the size after a full compaction.
    #[track_caller]
    fn percent(&self, db: &Db) -> u64 {
        let now = self.space();
        db.compact_range(None, None).unwrap();
        now * 100 / self.space().max(1)
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("{n:016}").into_bytes()
}

/// Returns 100 bytes that do not compress.
fn value(n: u32) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let bytes = (0..100).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    bytes.collect()
}

/// Returns all numbers in a scattered order.
fn scattered() -> impl Iterator<Item = u32> {
    (0..KEYS).map(|n| (u64::from(n) * 2_654_435_761 % u64::from(KEYS)) as u32)
}

fn fill(fixture: &SpaceDb) -> Db {
    let db = fixture.open();
    scattered().for_each(|n| db.put(key(n), value(n)).unwrap());
    fixture.settle(&db);
    db
}

/// Returns true for about half of the keys.
fn is_chosen(n: u32) -> bool {
    n.wrapping_mul(0x9e37_79b9).wrapping_mul(0x85eb_ca6b) >> 31 == 0
}

fn small_files(options: &mut Options) {
    options.write_buffer_size = Some(256 << 10);
    options.max_file_size = Some(1 << 20);
}

#[test]
fn space_of_random_deletes_is_reclaimed() {
    for change in [|_: &mut Options| (), small_files] {
        let fixture = SpaceDb::new(change);
        let db = fill(&fixture);
        scattered().filter(|&n| is_chosen(n)).for_each(|n| db.delete(key(n)).unwrap());
        fixture.settle(&db);
        let percent = fixture.percent(&db);
        assert!(percent <= 130, "{percent} %");
        let left = (0..KEYS).filter(|&n| !is_chosen(n)).count();
        assert!(left.abs_diff(KEYS as usize / 2) < 2_000, "{left} keys are left");
        assert_eq!(db.iter().count(), left);
    }
}

/// Random deletions of nine of ten keys during a load, without a manual compaction.
#[test]
fn space_of_nine_tenths_of_the_keys_is_reclaimed() {
    for style in [CompactionStyle::LazyLeveled, CompactionStyle::Leveled] {
        for change in [|_: &mut Options| (), small_files] {
            let fixture = SpaceDb::new(|options| {
                change(options);
                options.compaction_style = style;
            });
            let db = fill(&fixture);
            let is_kept = |n: u32| n.wrapping_mul(0x9e37_79b9).wrapping_mul(0x85eb_ca6b).is_multiple_of(10);
            scattered().filter(|&n| !is_kept(n)).for_each(|n| db.delete(key(n)).unwrap());
            fixture.settle(&db);
            let left = db.iter().count();
            assert_eq!(left, (0..KEYS).filter(|&n| is_kept(n)).count());
            let percent = fixture.percent(&db);
            assert!(percent <= 120, "{style:?}: {percent} %");
        }
    }
}

/// Loads of new keys and of random deletions, some of them with a pause. The tombstones of several
/// loads are in several runs, and each run alone hides little: a picker that considered one run
/// left 79, 82 and 37 % with the seeds 4, 17 and 41.
#[test]
fn deletions_of_several_loads_leave_a_quarter_at_most() {
    for seed in [4, 17, 23, 41] {
        let mut rng = Rng::new(seed);
        let fixture = SpaceDb::new(|options| {
            options.write_buffer_size = Some(64 << (10 + rng.below(4)));
            options.max_file_size = Some(256 << (10 + rng.below(4)));
        });
        let db = fixture.open();
        let mut new_keys = scattered();
        let mut live = Vec::new();
        for load in 0..8 {
            if load == 0 || rng.one_in(3) {
                for n in new_keys.by_ref().take(rng.below(u64::from(KEYS / 2)) as usize) {
                    db.put(key(n), value(n)).unwrap();
                    live.push(n);
                }
            } else {
                for _ in 0..live.len() * rng.below(80) as usize / 100 {
                    let n = live.swap_remove(rng.below(live.len() as u64) as usize);
                    db.delete(key(n)).unwrap();
                }
            }
            if rng.one_in(2) {
                fixture.settle(&db);
            }
        }
        fixture.settle(&db);
        assert_eq!(db.iter().count(), live.len());
        let now = fixture.space();
        db.compact_range(None, None).unwrap();
        let live_bytes = fixture.space();
        assert!(now <= live_bytes / 4 * 5, "seed {seed}: {now} bytes, {live_bytes} after a compaction");
    }
}

/// A queue under a load: scans from its head read as few blocks at the end as at the beginning.
#[test]
fn scans_of_a_queue_stay_short() {
    const LENGTH: u32 = 10_000;
    let fixture = SpaceDb::new(small_files);
    let db = fixture.open();
    let mut scans = Vec::new();
    for n in 0..KEYS {
        db.put(key(n), value(n)).unwrap();
        let Some(oldest) = n.checked_sub(LENGTH) else { continue };
        db.delete(key(oldest)).unwrap();
        if n % 500 == 0 {
            let before = blocks(&db);
            let found: Vec<_> = db.iter().take(10).map(|entry| entry.unwrap().0).collect();
            assert_eq!(found, (oldest + 1..oldest + 11).map(key).collect::<Vec<_>>());
            scans.push(blocks(&db) - before);
        }
    }
    let mean = |scans: &[u64]| scans.iter().sum::<u64>() / scans.len() as u64;
    let quarter = scans.len() / 4;
    let first = mean(&scans[..quarter]);
    let last = mean(&scans[scans.len() - quarter..]);
    assert!(last <= first * 2 + 2, "{first} blocks for each scan, then {last}");
}

/// Returns the number of block cache hits, block cache misses and reads in place so far.
fn blocks(db: &Db) -> u64 {
    let stats = db.property("terrace.stats").unwrap();
    let rows = stats.lines().filter(|row| row.starts_with("blocks"));
    let counts = rows.flat_map(str::split_whitespace).filter_map(|word| word.parse::<u64>().ok());
    let counts: Vec<u64> = counts.collect();
    assert_eq!(counts.len(), 3, "hits, misses, reads in place: {stats}");
    counts.iter().sum()
}

#[test]
fn scan_reads_few_blocks_of_a_deleted_range() {
    let fixture = SpaceDb::new(|_| ());
    let db = fill(&fixture);
    let blocks_of_range_scan = || {
        let before = blocks(&db);
        let mut iter = db.raw_iter();
        iter.seek(&key(KEYS / 4));
        while iter.valid() && iter.key() < &key(KEYS / 4 * 3)[..] {
            iter.next();
        }
        assert_eq!(iter.key(), key(KEYS / 4 * 3));
        blocks(&db) - before
    };
    let full = blocks_of_range_scan();
    (KEYS / 4..KEYS / 4 * 3).for_each(|n| db.delete(key(n)).unwrap());
    fixture.settle(&db);
    let empty = blocks_of_range_scan();
    assert!(full > 1_000 && empty < 10, "{empty} blocks read, {full} before");
    let percent = fixture.percent(&db);
    assert!(percent <= 130, "{percent} %");
}

#[test]
fn deletes_of_missing_keys_leave_no_tables() {
    let fixture = SpaceDb::new(|_| ());
    let db = fixture.open();
    scattered().for_each(|n| db.delete(key(n)).unwrap());
    fixture.settle(&db);
    assert_eq!(fixture.space(), 0, "{}", db.property("leveldb.sstables").unwrap());
}

/// Entries that a snapshot sees stay, and their tombstones are not compacted again and again. After
/// the release of the snapshot they are compacted.
#[test]
fn tombstones_are_not_compacted_while_a_snapshot_needs_them() {
    let fixture = SpaceDb::new(|_| ());
    let db = fill(&fixture);
    db.compact_range(None, None).unwrap();
    let before = ReadOptions::default().snapshot(db.snapshot());
    let full = fixture.space();
    scattered().filter(|&n| is_chosen(n)).for_each(|n| db.delete(key(n)).unwrap());
    fixture.settle(&db);
    let tombstones = fixture.space() - full;
    assert!(tombstones < full / 2, "{tombstones} bytes of tombstones above {full}");
    assert_eq!(db.iter_with(&before).count() as u32, KEYS);
    // A manual compaction moves the tombstones to the last level, together with the entries that
    // the snapshot sees.
    db.compact_range(None, None).unwrap();
    fixture.settle(&db);
    assert!(fixture.space() >= full);
    drop(before);
    fixture.background.run_until_idle();
    assert!(
        fixture.space() * 2 <= full * 13 / 10,
        "{} bytes of {full} for half of the keys",
        fixture.space()
    );
}

/// Tombstones of an earlier process are known as soon as their tables are open.
#[test]
fn tombstones_of_an_earlier_run_are_compacted() {
    let fixture = SpaceDb::new(|_| ());
    let db = fill(&fixture);
    db.compact_range(None, None).unwrap();
    let full = fixture.space();
    let before = db.snapshot();
    scattered().filter(|&n| is_chosen(n)).for_each(|n| db.delete(key(n)).unwrap());
    fixture.settle(&db);
    // The snapshot is released when the database cannot react any more.
    db.shutdown().unwrap();
    drop((before, db));

    let db = fixture.open();
    assert!(fixture.space() > full);
    assert_eq!(db.iter().count(), (0..KEYS).filter(|&n| !is_chosen(n)).count());
    fixture.background.run_until_idle();
    let percent = fixture.percent(&db);
    assert!(percent <= 130, "{percent} %");
}

/// A queue deletes its oldest keys at one end while it adds new keys at the other. Its tables of
/// tombstones overlap only the entries that they hide.
#[test]
fn queue_workload_uses_bounded_space() {
    const LENGTH: u32 = 20_000;
    let fixture = SpaceDb::new(small_files);
    let db = fixture.open();
    let mut max_space = 0;
    for n in 0..KEYS {
        db.put(key(n), value(n)).unwrap();
        if let Some(oldest) = n.checked_sub(LENGTH) {
            db.delete(key(oldest)).unwrap();
        }
        if n % 1_000 == 0 {
            fixture.background.run_until_idle();
            max_space = max_space.max(fixture.space());
        }
    }
    // Each entry has 116 bytes; the rest allows for level 0.
    assert!(max_space < u64::from(LENGTH) * 250, "{max_space} bytes");
}

/// Puts, deletes and snapshots in random order: all reads are correct during all kinds of
/// compactions.
#[test]
fn reads_are_correct_during_tombstone_compactions() {
    const SPAN: u32 = 20_000;
    let mut tombstone_compactions = 0;
    for seed in 1..4u64 {
        let fixture = SpaceDb::new(|options| {
            small_files(options);
            options.write_buffer_size = Some(64 << 10);
        });
        let db = fixture.open();
        let mut state = seed;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(below)) as u32
        };
        let mut model = BTreeMap::new();
        let mut snapshots = Vec::new();
        for round in 0..40 {
            let (low, span) = if random(2) == 0 { (0, SPAN) } else { (random(SPAN), SPAN / 10) };
            let deletes = random(101);
            for _ in 0..2_000 {
                let n = low + random(span);
                if random(100) < deletes {
                    db.delete(key(n)).unwrap();
                    model.remove(&key(n));
                } else {
                    let value = value(n + round);
                    db.put(key(n), &value).unwrap();
                    model.insert(key(n), value);
                }
            }
            if random(3) == 0 {
                let options = ReadOptions::default().snapshot(db.snapshot());
                snapshots.push((options, model.clone()));
            }
            if snapshots.len() > 2 {
                snapshots.clear();
            }
            fixture.background.run_until_idle();
            snapshots.iter().for_each(|(options, model)| assert!(contents(&db, options) == *model));
            assert!(contents(&db, &ReadOptions::default()) == model, "seed {seed}, round {round}");
        }
        let mut log = vec![0; fixture.env.fs.file_size("db/LOG".as_ref()).unwrap() as usize];
        fixture.env.fs.open_sequential("db/LOG".as_ref()).unwrap().read(&mut log).unwrap();
        tombstone_compactions += String::from_utf8_lossy(&log).matches("reason=Tombstones").count();
        db.close().unwrap();
        assert!(terrace::verify("db", &fixture.options).unwrap().is_clean());
    }
    assert!(tombstone_compactions > 2, "{tombstone_compactions} tombstone compactions");
}

fn contents(db: &Db, options: &ReadOptions) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.iter_with(options).collect::<Result<_, _>>().unwrap()
}

/// Wrong table properties cost at most one compaction.
#[test]
fn false_table_properties_do_no_harm() {
    let fixture = SpaceDb::new(|_| ());
    let db = fill(&fixture);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let names = fixture.env.fs.list("db".as_ref()).unwrap();
    for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".ldb")) {
        falsify_properties(&fixture.env, &Path::new("db").join(name));
    }
    let db = fixture.open();
    assert_eq!(db.iter().count() as u32, KEYS);
    let full = fixture.space();
    db.put(key(KEYS), b"").unwrap();
    fixture.settle(&db);
    assert_eq!(db.iter().count() as u32, KEYS + 1);
    assert!(fixture.space() <= full + full / 10);
}

/// Changes the properties of the table at `path`, so that they count every entry as a tombstone.
fn falsify_properties(env: &Env, path: &Path) {
    use terrace_format::crc;
    let mut bytes = vec![0; env.fs.file_size(path).unwrap() as usize];
    env.fs.open_random_access(path, terrace_env::AccessMode::Pread).unwrap().read_at(0, &mut bytes).unwrap();
    let marker = bytes.windows(5).rposition(|window| window == b"CNTS\0").unwrap();
    let entries = bytes[marker - 16..marker - 8].to_vec();
    bytes[marker - 8..marker].copy_from_slice(&entries);
    let sum = crc::mask(crc::value(&bytes[marker - 16..marker + 5]));
    bytes[marker + 5..marker + 9].copy_from_slice(&sum.to_le_bytes());
    let mut file = env.fs.create(path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

thread_local! {
    /// True in the thread whose next comparison waits.
    static IS_GATED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Bytewise comparator under another name. The first comparison in a gated thread waits until the
/// test opens the gate.
struct GatedComparator(std::sync::Barrier);

impl Comparator for GatedComparator {
    fn name(&self) -> &str {
        "gated"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if IS_GATED.take() {
            self.0.wait(); // the read has begun
            self.0.wait(); // the gate is open
        }
        a.cmp(b)
    }
}

/// Symptom: a program that only read kept 200 MB of replaced tables mapped and on disk. Cause: a
/// get was running when the compaction removed the tables that it had replaced, and no job
/// followed. Guarantee: the last get that uses a replaced table schedules its removal.
#[test]
fn last_get_of_a_replaced_table_schedules_its_removal() {
    let comparator = Arc::new(GatedComparator(std::sync::Barrier::new(2)));
    let fixture = SpaceDb::new(|options| options.comparator = comparator.clone());
    let db = fixture.open();
    for value in [b"old", b"new"] {
        db.put(b"key", value).unwrap();
        db.flush().unwrap();
    }
    let table_files = || {
        let files = fixture.env.fs.list(Path::new("db")).unwrap();
        files.iter().filter(|file| file.to_string_lossy().ends_with(".ldb")).count()
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            IS_GATED.set(true);
            db.get(b"key")
        });
        comparator.0.wait();
        db.compact_range(None, None).unwrap();
        fixture.background.run_until_idle();
        assert_eq!(table_files(), 3, "the get holds two replaced tables");
        comparator.0.wait();
        assert_eq!(reader.join().unwrap().unwrap().as_deref(), Some(b"new".as_slice()));
    });
    fixture.background.run_until_idle();
    assert_eq!(table_files(), 1);
}
