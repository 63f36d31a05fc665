//! Levels, each several times the one above, merged file by file; level 0 goes to the base at once.
//!
//! 1. The level that is fullest against its limit gives the file that overlaps the least of the next; level 0, the one
//!    behind its compact pointer, and it counts files instead of bytes, because every look-up reads each of them.
//! 2. Level 0 gives every file that overlaps it, and goes to the base ([`Shape`]), taking along what it overlaps on the
//!    levels that it passes. Another level goes to the next. The receiving level gives what overlaps all those.
//! 3. If the level can give more without the level below giving more, it does.
//! 4. Versions of one user key are never left behind in a file that would then hold older data than the level below:
//!    every file that begins with the user key on which the inputs end comes along. (LevelDB 1.23 forgets that for
//!    the level below.)

use terrace_format::comparator::Comparator;
use terrace_format::version_edit::NUM_LEVELS;
use terrace_sync::mutant;

use super::{CompactionLimits, L0_COMPACTION_TRIGGER, LevelTargets, MAX_MEM_COMPACT_LEVEL};
use crate::compaction::{Compaction, CompactionReason};
use crate::sync::Arc;
use crate::version::{FileMeta, KeyRange, ReadCompactionHint, Version, VersionSet, total_size};

/// The level that most needs a merge, and by how much it exceeds its limit (1 is just full).
pub(crate) fn highest_score(version: &Version) -> (usize, f64) {
    let shape = LevelTargets::new(version);
    let score = |level: usize| match level {
        0 => version.levels[0].len() as f64 / L0_COMPACTION_TRIGGER as f64,
        _ => shape.level_size(level) as f64 / shape.max_bytes(level),
    };
    // The last level has nowhere to go.
    (0..NUM_LEVELS - 1)
        .map(|level| (level, score(level)))
        .fold((0, -1.0), |best, next| if next.1 > best.1 { next } else { best })
}

/// The next merge, if one is due. `worn` is a file that look-ups wore out.
pub(crate) fn pick(
    set: &VersionSet,
    worn: Option<&ReadCompactionHint>,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let version = &set.version;
    let (level, score) = highest_score(version);
    if score < 1.0 {
        return pick_read_triggered(version, worn?, limits);
    }
    let shape = LevelTargets::new(version);
    if level == 0 && shape.needs_level() {
        let bottom = shape.bottom_level();
        let all = version.levels[bottom].clone();
        return Some(setup_other_inputs(
            version,
            CompactionReason::AddLevel,
            bottom,
            bottom + 1,
            all,
            limits,
        ));
    }
    let file = match level {
        0 => next_by_compact_pointer(set)?,
        _ => min_overlapping_ratio(version, level)?,
    };
    let output = if level == 0 { shape.base_level() } else { level + 1 };
    Some(setup_other_inputs(
        version,
        CompactionReason::LevelSize,
        level,
        output,
        start_level_inputs(version, level, file),
        limits,
    ))
}

/// The merge of a file that look-ups wore out, if it is still there and has somewhere to go: level 0 goes to its base, as it
/// does when it is full.
pub(crate) fn pick_read_triggered(
    version: &Version,
    (level, file): &ReadCompactionHint,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let present = version.levels[*level].iter().any(|f| f.number == file.number);
    if !present || *level + 1 >= NUM_LEVELS {
        return None;
    }
    let output = if *level == 0 { LevelTargets::new(version).base_level() } else { *level + 1 };
    Some(setup_other_inputs(
        version,
        CompactionReason::ReadTriggered,
        *level,
        output,
        start_level_inputs(version, *level, file),
        limits,
    ))
}

/// The file of level 0 behind its compact pointer. The level stands newest first; any start does, and the oldest is the
/// most due.
fn next_by_compact_pointer(set: &VersionSet) -> Option<&Arc<FileMeta>> {
    let behind = |file: &&Arc<FileMeta>| match &set.compact_pointers[0] {
        Some(last) => set.version.comparator.compare(file.largest.as_bytes(), last.as_bytes()).is_gt(),
        None => true,
    };
    let files = &set.version.levels[0];
    files.iter().rev().find(behind).or_else(|| files.last())
}

/// The file of a sorted level that overlaps the least of the next for its size: the one whose merge rewrites the fewest
/// bytes for each that it takes off the level.
fn min_overlapping_ratio(version: &Version, level: usize) -> Option<&Arc<FileMeta>> {
    let cost = |file: &Arc<FileMeta>| {
        let met = version.overlapping_slice(level + 1, file.smallest.user_key(), file.largest.user_key());
        total_size(met) as f64 / file.size.max(1) as f64
    };
    let costs = version.levels[level].iter().map(|file| (cost(file), file));
    costs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, file)| file)
}

/// What has to go with `file` from its own level.
pub(super) fn start_level_inputs(
    version: &Version,
    level: usize,
    file: &Arc<FileMeta>,
) -> Vec<Arc<FileMeta>> {
    let file = vec![Arc::clone(file)];
    if level == 0 && !mutant!(OverlappingLevel0InputMissed) {
        version.overlapping_inputs(0, input_key_range(version, &file))
    } else {
        file
    }
}

/// The merge of everything that `level` has in `range`, or of a first part of it, for request `id`.
pub(crate) fn pick_manual(
    version: &Version,
    id: u64,
    level: usize,
    range: KeyRange<'_>,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let mut inputs = version.overlapping_inputs(level, range);
    if inputs.is_empty() || level + 1 >= NUM_LEVELS {
        return None;
    }
    // Not too much in one go; but on level 0, where files overlap, no file may be left out.
    if level > 0 {
        let mut total = 0;
        let enough = inputs.iter().position(|file| {
            total += file.size;
            total >= limits.target_file_size
        });
        inputs.truncate(enough.map_or(inputs.len(), |last| last + 1));
    }
    Some(setup_other_inputs(version, CompactionReason::Manual(id), level, level + 1, inputs, limits))
}

/// The deepest level, up to 2, to which a table with the keys of `range` may go: nothing above, and nothing on that
/// level, may overlap it, and not too much below.
pub(crate) fn pick_level_for_memtable_output(
    version: &Version,
    begin: &[u8],
    end: &[u8],
    limits: &CompactionLimits,
) -> usize {
    let range = KeyRange { begin: Some(begin), end: Some(end) };
    if version.overlaps_level(0, range) {
        return 0;
    }
    let mut level = 0;
    while level < MAX_MEM_COMPACT_LEVEL
        && !version.overlaps_level(level + 1, range)
        && total_size(&version.overlapping_inputs(level + 2, range)) <= limits.max_grandparent_overlap_bytes()
    {
        level += 1;
    }
    level
}

/// The range of `files`, both ends included.
fn input_key_range<'a>(version: &Version, files: &'a [Arc<FileMeta>]) -> KeyRange<'a> {
    let hull = version.key_range(files);
    KeyRange { begin: hull.map(|(low, _)| low), end: hull.map(|(_, high)| high) }
}

/// Steps 2 to 4 for given inputs of `level` on their way to level `output`.
pub(super) fn setup_other_inputs(
    version: &Version,
    reason: CompactionReason,
    level: usize,
    output: usize,
    inputs: Vec<Arc<FileMeta>>,
    limits: &CompactionLimits,
) -> Compaction {
    let limits = limits.for_level(LevelTargets::new(version).level_size(output));
    let mut all = add_boundary_inputs(version, level, inputs);
    let mut inputs = vec![(level, all.clone())];
    for below in level + 1..=output {
        let files = add_boundary_inputs(
            version,
            below,
            version.overlapping_inputs(below, input_key_range(version, &all)),
        );
        all.extend_from_slice(&files);
        inputs.push((below, files));
    }
    if let [(_, upper), (_, lower)] = &mut inputs[..]
        && !lower.is_empty()
    {
        let wider = add_boundary_inputs(
            version,
            level,
            version.overlapping_inputs(level, input_key_range(version, &all)),
        );
        if wider.len() > upper.len()
            && total_size(lower) + total_size(&wider) < limits.expanded_compaction_bytes()
        {
            let below = add_boundary_inputs(
                version,
                output,
                version.overlapping_inputs(output, input_key_range(version, &wider)),
            );
            if below.len() == lower.len() {
                all = wider.iter().chain(&below).cloned().collect();
                (*upper, *lower) = (wider, below);
            }
        }
    }
    let grandparents = match output + 1 {
        NUM_LEVELS.. => Vec::new(),
        below => version.overlapping_inputs(below, input_key_range(version, &all)),
    };
    let order = |a: &&Arc<FileMeta>, b: &&Arc<FileMeta>| {
        version.comparator.compare(a.largest.as_bytes(), b.largest.as_bytes())
    };
    let pointer = inputs[0].1.iter().max_by(order).map(|file| file.largest.clone());
    Compaction { reason, inputs, grandparents, compact_pointer: pointer, limits }
}

/// `inputs` and every file of the same level that goes on with the user key on which they end.
fn add_boundary_inputs(
    version: &Version,
    level: usize,
    mut inputs: Vec<Arc<FileMeta>>,
) -> Vec<Arc<FileMeta>> {
    if level == 0 || mutant!(UserKeySplitAcrossTables) {
        return inputs;
    }
    while let Some(last) = inputs.last() {
        let next = version.levels[level].iter().find(|file| {
            version.comparator.compare(file.smallest.as_bytes(), last.largest.as_bytes()).is_gt()
                && version
                    .comparator
                    .user_comparator()
                    .compare(file.smallest.user_key(), last.largest.user_key())
                    .is_eq()
        });
        match next {
            Some(next) => inputs.push(Arc::clone(next)),
            None => break,
        }
    }
    inputs
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use terrace_format::comparator::bytewise;
    use terrace_format::key::{InternalComparator, InternalKey, ValueType};
    use terrace_format::version_edit::{NewFile, VersionEdit};

    use super::*;

    pub(in crate::compaction::picker) const LIMITS: CompactionLimits =
        CompactionLimits { target_file_size: 2 << 20, scales_with_level: false };
    const MB: u64 = 1 << 20;

    /// Files as `level number megabytes smallest@sequence largest@sequence`.
    pub(in crate::compaction::picker) fn set(files: &str) -> VersionSet {
        let key = |text: &str| {
            let (user, sequence) = text.split_once('@').unwrap();
            InternalKey::new(user.as_bytes(), sequence.parse().unwrap(), ValueType::Value)
        };
        let mut edit = VersionEdit::default();
        for line in files.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = words[1].parse().unwrap();
            let size = words[2].parse::<u64>().unwrap() * MB;
            let file = NewFile { number, size, smallest: key(words[3]), largest: key(words[4]) };
            edit.new_files.push((words[0].parse().unwrap(), file));
        }
        VersionSet::empty(InternalComparator::new(bytewise()))
            .apply_edit(&edit, Path::new("MANIFEST-000001"))
            .unwrap()
    }

    pub(in crate::compaction::picker) fn text(job: Option<Compaction>) -> String {
        let numbers = |files: &[Arc<FileMeta>]| {
            files.iter().map(|file| file.number.to_string()).collect::<Vec<_>>().join(" ")
        };
        job.map_or("nothing".into(), |job| {
            let inputs: Vec<_> = job.inputs.iter().map(|(_, files)| numbers(files)).collect();
            let (from, to) = (job.level(), job.output_level());
            format!("{from} to {to}: {}, above {}", inputs.join(" + "), numbers(&job.grandparents))
        })
    }

    #[track_caller]
    fn check(files: &str, expect: &str) {
        assert_eq!(text(pick(&set(files), None, &LIMITS)), expect);
    }

    #[test]
    fn three_level_0_files_do_not_trigger() {
        check("0 1 1 a@1 b@1\n 0 2 1 a@2 b@2\n 0 3 1 a@3 b@3", "nothing");
    }

    #[test]
    fn four_level_0_files_compact_with_overlapping_inputs() {
        check(
            "0 1 1 a@1 c@1\n 0 2 1 b@2 e@2\n 0 3 1 d@3 f@3\n 0 4 1 x@4 z@4\n 1 5 1 e@0 g@0\n 1 6 1 h@0 i@0",
            "0 to 1: 3 2 1 + 5, above ",
        );
    }

    #[test]
    fn full_level_picks_min_overlapping_ratio() {
        let files = "1 1 6 a@1 c@1\n 1 2 6 d@2 f@2\n 1 3 1 g@2 h@2\n";
        check(&format!("{files} 2 4 1 e@0 e@0\n 3 5 1 e@0 z@0"), "1 to 2: 1 + , above ");
        check(&format!("{files} 2 4 7 a@0 a@0\n 2 5 6 d@0 d@0\n 2 6 2 g@0 g@0"), "1 to 2: 2 + 5, above ");
    }

    #[test]
    fn level_0_starts_after_compact_pointer() {
        let mut set = set("0 1 1 a@1 b@1\n 0 2 1 c@2 d@2\n 0 3 1 e@3 f@3\n 0 4 1 g@4 h@4");
        assert_eq!(text(pick(&set, None, &LIMITS)), "0 to 2: 1 +  + , above ");
        set.compact_pointers[0] = Some(InternalKey::new(b"d", 2, ValueType::Value));
        assert_eq!(text(pick(&set, None, &LIMITS)), "0 to 2: 3 +  + , above ");
        set.compact_pointers[0] = Some(InternalKey::new(b"x", 2, ValueType::Value));
        assert_eq!(text(pick(&set, None, &LIMITS)), "0 to 2: 1 +  + , above ", "round robin");
    }

    #[test]
    fn boundary_file_of_start_level_is_added() {
        check("1 1 6 a@9 k@5\n 1 2 6 k@3 m@1\n 1 3 1 n@1 p@1\n 2 4 1 x@0 z@0", "1 to 2: 1 2 + , above ");
    }

    #[test]
    fn boundary_file_of_output_level_is_added() {
        check("1 1 11 a@9 h@9\n 2 2 1 b@5 k@5\n 2 3 1 k@3 m@1", "1 to 2: 1 + 2 3, above ");
    }

    #[test]
    fn level_0_skips_to_base_level_with_overlapping_inputs() {
        let level_0 = "0 1 4 a@1 m@1\n 0 2 4 a@2 m@2\n 0 3 4 a@3 m@3\n 0 4 4 a@4 m@4\n";
        check(level_0, "0 to 2: 4 3 2 1 +  + , above ");
        check(&format!("{level_0} 2 5 79 b@0 p@0"), "0 to 2: 4 3 2 1 +  + 5, above ");
        let met = format!(
            "{level_0} 1 5 1 l@0 o@0\n 1 6 1 x@0 y@0\n 2 7 60 n@0 p@0\n 2 8 9 q@0 z@0\n 3 9 1 o@0 r@0"
        );
        check(&met, "0 to 3: 4 3 2 1 + 5 + 7 + 9, above ");
    }

    #[test]
    fn base_level_rises_and_bottom_level_deepens_with_size() {
        let level_0 = "0 1 4 a@1 m@1\n 0 2 4 a@2 m@2\n 0 3 4 a@3 m@3\n 0 4 4 a@4 m@4\n";
        check(&format!("{level_0} 2 5 79 b@0 p@0"), "0 to 2: 4 3 2 1 +  + 5, above ");
        check(&format!("{level_0} 2 5 80 b@0 p@0"), "0 to 1: 4 3 2 1 + , above 5");
        check(&format!("{level_0} 2 5 399 b@0 p@0"), "0 to 1: 4 3 2 1 + , above 5");
        check(&format!("{level_0} 2 5 400 b@0 p@0"), "2 to 3: 5 + , above ");
        check(&format!("{level_0} 6 5 999999 b@0 p@0"), "0 to 1: 4 3 2 1 + , above ");
    }

    #[test]
    fn leveldb_level_sizes_need_no_compaction() {
        check("1 1 9 a@9 k@5\n 2 2 99 a@4 k@4\n 3 3 999 a@3 k@3\n 4 4 1 a@2 b@2", "nothing");
        check("2 1 50 a@2 b@2\n 2 2 51 c@1 d@1\n 3 3 1 a@0 d@0", "2 to 3: 2 + 3, above ");
    }

    #[test]
    fn target_file_size_scales_with_level() {
        let size =
            |limits: CompactionLimits, level_size| limits.for_level(level_size * MB).target_file_size / MB;
        let grows = CompactionLimits { scales_with_level: true, ..LIMITS };
        assert_eq!([size(grows, 1), size(grows, 640), size(grows, 1 << 20)], [2, 10, 64]);
        assert_eq!(size(LIMITS, 1 << 20), 2);
    }

    #[test]
    fn read_compaction_when_no_level_is_full() {
        let set = set("1 1 1 a@1 c@1\n 2 2 1 b@0 d@0");
        let worn = (1, Arc::clone(&set.version.levels[1][0]));
        assert_eq!(text(pick(&set, Some(&worn), &LIMITS)), "1 to 2: 1 + 2, above ");
    }

    #[test]
    fn read_compaction_of_level_0_goes_to_base_level() {
        let set = set("0 1 1 a@9 c@9\n 0 2 1 b@8 d@8\n 3 3 9 a@0 x@0\n 4 4 40 a@0 x@0");
        let worn = (0, Arc::clone(&set.version.levels[0][0]));
        assert_eq!(text(pick(&set, Some(&worn), &LIMITS)), "0 to 3: 2 1 +  +  + 3, above 4");
    }

    #[test]
    fn read_compaction_ignores_missing_file() {
        let worn = (1, Arc::clone(&set("1 1 1 a@1 c@1").version.levels[1][0]));
        assert_eq!(text(pick(&set("1 2 1 a@1 c@1\n 2 3 1 a@0 c@0"), Some(&worn), &LIMITS)), "nothing");
        let set = set("6 1 1 a@1 c@1");
        let worn = (6, Arc::clone(&set.version.levels[6][0]));
        assert_eq!(text(pick(&set, Some(&worn), &LIMITS)), "nothing");
    }

    #[test]
    fn flush_goes_to_deepest_level_without_overlap() {
        let level = |files: &str| pick_level_for_memtable_output(&set(files).version, b"c", b"e", &LIMITS);
        assert_eq!(level(""), 2);
        assert_eq!(level("0 1 1 d@1 x@1"), 0);
        assert_eq!(level("1 1 1 d@1 x@1"), 0);
        assert_eq!(level("2 1 1 d@1 x@1"), 1);
        assert_eq!(level("3 1 30 d@1 x@1"), 1, "too much below level 2");
    }
}
