//! Leveled compaction: each level is several times larger than the level above, and compactions
//! move one file at a time. Level 0 is compacted directly into the base level ([`LevelTargets`]).
//!
//! 1. The start level is the level with the highest score, which is its size divided by its maximum
//!    size. The score of level 0 counts files instead of bytes, because a get may probe each of
//!    them. The start level contributes the file with the least overlap in the next level; level 0
//!    contributes the file after its compact pointer.
//! 2. Level 0 also contributes every file that overlaps this file. Its output level is the base
//!    level, and the levels between contribute their overlapping files. The output level of another
//!    level is the next one. The output level contributes the files that overlap all these inputs.
//! 3. The start level contributes further files if the output level then contributes no more.
//! 4. A compaction never separates the versions of one user key, because an upper level could then
//!    hold older versions than a lower one. So each level also contributes the files that start
//!    with the last user key of its inputs. (LevelDB 1.23 does not do so for the output level.)

use terrace_format::comparator::Comparator;
use terrace_format::version_edit::NUM_LEVELS;
use terrace_sync::mutant;

use super::level_targets::LevelTargets;
use crate::compaction::compaction_plan::{Compaction, CompactionLimits, MAX_MEM_COMPACT_LEVEL};
use crate::event::CompactionReason;
use crate::sync::Arc;
use crate::version::{FileMeta, KeyRange, ReadCompactionHint, Version, VersionSet, total_size};

/// Returns the level that most needs a compaction, and its score. A level with a score of 1 or more
/// is full.
pub(crate) fn highest_score(version: &Version) -> (usize, f64) {
    let targets = LevelTargets::new(version);
    let mut best = (0, LevelTargets::level_0_score(version.levels[0].len()));
    // The last level has no output level.
    for level in 1..NUM_LEVELS - 1 {
        let score = targets.level_size(level) as f64 / targets.max_bytes(level);
        if score > best.1 {
            best = (level, score);
        }
    }
    best
}

/// Returns the next compaction, if one is due. `hint` is a file that used up its allowed seeks.
pub(crate) fn pick(
    set: &VersionSet,
    hint: Option<&ReadCompactionHint>,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let version = &set.version;
    let (level, score) = highest_score(version);
    if score < 1.0 {
        return pick_read_triggered(version, hint?, limits);
    }
    let targets = LevelTargets::new(version);
    if level == 0 && targets.needs_level() {
        let bottom = targets.bottom_level();
        let inputs = version.levels[bottom].clone();
        let reason = CompactionReason::AddLevel;
        return Some(setup_other_inputs(version, reason, bottom, bottom + 1, inputs, limits));
    }
    let file = match level {
        0 => next_by_compact_pointer(set)?,
        _ => min_overlapping_ratio(version, level)?,
    };
    let output_level = if level == 0 { targets.base_level() } else { level + 1 };
    let inputs = start_level_inputs(version, level, file);
    Some(setup_other_inputs(version, CompactionReason::LevelSize, level, output_level, inputs, limits))
}

/// Returns the compaction of a file that used up its allowed seeks, if the version still has the
/// file and there is an output level. The output level of level 0 is the base level.
pub(crate) fn pick_read_triggered(
    version: &Version,
    (level, file): &ReadCompactionHint,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let level = *level;
    let is_live = version.levels[level].iter().any(|live| live.number == file.number);
    if !is_live || level + 1 >= NUM_LEVELS {
        return None;
    }
    let output_level = if level == 0 { LevelTargets::new(version).base_level() } else { level + 1 };
    let inputs = start_level_inputs(version, level, file);
    Some(setup_other_inputs(version, CompactionReason::ReadTriggered, level, output_level, inputs, limits))
}

/// Returns the oldest file of level 0 after the compact pointer, or the oldest file if there is
/// none. Level 0 is sorted from the newest file to the oldest.
fn next_by_compact_pointer(set: &VersionSet) -> Option<&Arc<FileMeta>> {
    let files = &set.version.levels[0];
    let Some(pointer) = &set.compact_pointers[0] else { return files.last() };
    files
        .iter()
        .rev()
        .find(|file| set.version.comparator.compare(file.largest.as_bytes(), pointer.as_bytes()).is_gt())
        .or_else(|| files.last())
}

/// Returns the file of a sorted level with the smallest ratio of overlapping bytes in the next
/// level to its own size. Its compaction rewrites the fewest bytes for each byte that it moves
/// down.
fn min_overlapping_ratio(version: &Version, level: usize) -> Option<&Arc<FileMeta>> {
    let ratios = version.levels[level].iter().map(|file| {
        let overlapping =
            version.overlapping_slice(level + 1, file.smallest.user_key(), file.largest.user_key());
        (total_size(overlapping) as f64 / file.size.max(1) as f64, file)
    });
    ratios.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, file)| file)
}

/// Returns the inputs of the start level for a compaction of `file`.
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

/// Returns a compaction of the files of `level` that overlap `range`, or of the first of them, for
/// the manual compaction `id`.
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
    // Files of level 0 overlap, so a compaction needs all of them.
    if level > 0 {
        limit_step(&mut inputs, limits);
    }
    Some(setup_other_inputs(version, CompactionReason::Manual(id), level, level + 1, inputs, limits))
}

/// Returns a compaction that rewrites the first adjacent files of `level` that overlap `range` and
/// have numbers below `number`, on the same level. The level is not 0.
pub(crate) fn pick_rewrite(
    version: &Version,
    id: u64,
    level: usize,
    range: KeyRange<'_>,
    number: u64,
    limits: &CompactionLimits,
) -> Option<Compaction> {
    let files = version.overlapping_inputs(level, range).into_iter();
    let mut inputs: Vec<_> =
        files.skip_while(|file| file.number >= number).take_while(|file| file.number < number).collect();
    if inputs.is_empty() {
        return None;
    }
    limit_step(&mut inputs, limits);
    Some(setup_other_inputs(version, CompactionReason::Manual(id), level, level, inputs, limits))
}

/// Removes the files after the first ones with the size of one step.
fn limit_step(inputs: &mut Vec<Arc<FileMeta>>, limits: &CompactionLimits) {
    let mut total = 0u64;
    let last = inputs.iter().position(|file| {
        total = total.saturating_add(file.size);
        total >= limits.target_file_size
    });
    inputs.truncate(last.map_or(inputs.len(), |last| last + 1));
}

/// Returns the deepest level, at most [`MAX_MEM_COMPACT_LEVEL`], to which a flush may write a table
/// with keys from `begin` to `end`. No file of this level or of an upper level overlaps the table,
/// and few bytes of the level below do.
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

/// Returns the level for a table of an ingest of `total_bytes` bytes, whose `range` contains no key
/// of the database. `reserved` is the output level of a running compaction that may write to the
/// range.
///
/// No order of the levels is wrong for such a table. Level 0 is the last choice, because each of
/// its files slows down reads and writes.
pub(crate) fn pick_level_for_ingest(
    version: &Version,
    range: KeyRange<'_>,
    total_bytes: u64,
    reserved: Option<usize>,
) -> usize {
    let deepest = LevelTargets::new(version).level_for_ingest(total_bytes);
    let mut levels = (1..=deepest).rev().chain(deepest + 1..NUM_LEVELS);
    levels.find(|&level| Some(level) != reserved && !version.overlaps_level(level, range)).unwrap_or(0)
}

/// Returns the user key range of `files`, both ends included.
fn input_key_range<'a>(version: &Version, files: &'a [Arc<FileMeta>]) -> KeyRange<'a> {
    let range = version.key_range(files);
    KeyRange { begin: range.map(|(low, _)| low), end: range.map(|(_, high)| high) }
}

/// Completes the `inputs` of `level` to a compaction into `output_level`, by steps 2 to 4 of the
/// module description.
pub(super) fn setup_other_inputs(
    version: &Version,
    reason: CompactionReason,
    level: usize,
    output_level: usize,
    inputs: Vec<Arc<FileMeta>>,
    limits: &CompactionLimits,
) -> Compaction {
    // An empty level says nothing about the size of its next tables.
    let level_size = LevelTargets::new(version).level_size(output_level).max(total_size(&inputs));
    let limits = limits.for_level(level_size);
    let mut all = add_boundary_inputs(version, level, inputs);
    let mut inputs = vec![(level, all.clone())];
    for lower in level + 1..=output_level {
        let files = match mutant!(RunAboveNewerOne) && lower < output_level {
            true => Vec::new(),
            false => overlapping_and_boundary_inputs(version, lower, &all),
        };
        all.extend_from_slice(&files);
        inputs.push((lower, files));
    }
    if let [(_, start_files), (_, output_files)] = &mut inputs[..]
        && !output_files.is_empty()
    {
        let wider = overlapping_and_boundary_inputs(version, level, &all);
        if wider.len() > start_files.len()
            && total_size(output_files.iter().chain(&wider)) < limits.expanded_compaction_bytes()
        {
            let files = overlapping_and_boundary_inputs(version, output_level, &wider);
            if files.len() == output_files.len() {
                all = wider.iter().chain(&files).cloned().collect();
                *start_files = wider;
                *output_files = files;
            }
        }
    }
    let grandparents = match output_level + 1 {
        NUM_LEVELS.. => Vec::new(),
        level => version.overlapping_inputs(level, input_key_range(version, &all)),
    };
    let last = inputs[0]
        .1
        .iter()
        .max_by(|a, b| version.comparator.compare(a.largest.as_bytes(), b.largest.as_bytes()));
    let compact_pointer = last.map(|file| file.largest.clone());
    Compaction { reason, inputs, grandparents, compact_pointer, limits }
}

/// Returns the files of `level` that overlap `inputs`, and their boundary files.
fn overlapping_and_boundary_inputs(
    version: &Version,
    level: usize,
    inputs: &[Arc<FileMeta>],
) -> Vec<Arc<FileMeta>> {
    let overlapping = version.overlapping_inputs(level, input_key_range(version, inputs));
    add_boundary_inputs(version, level, overlapping)
}

/// Returns `inputs` and their boundary files: the files of the same level that start with the last
/// user key of the inputs.
fn add_boundary_inputs(
    version: &Version,
    level: usize,
    mut inputs: Vec<Arc<FileMeta>>,
) -> Vec<Arc<FileMeta>> {
    if level == 0 || mutant!(UserKeySplitAcrossTables) {
        return inputs;
    }
    let comparator = &version.comparator;
    while let Some(last) = inputs.last() {
        let next = version.levels[level].iter().find(|file| {
            comparator.compare(file.smallest.as_bytes(), last.largest.as_bytes()).is_gt()
                && comparator.compare_user_keys(file.smallest.user_key(), last.largest.user_key()).is_eq()
        });
        match next {
            Some(next) => inputs.push(Arc::clone(next)),
            None => break,
        }
    }
    inputs
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use terrace_format::comparator::bytewise;
    use terrace_format::key::{InternalComparator, InternalKey, ValueType};
    use terrace_format::version_edit::{NewFile, VersionEdit};

    use super::*;
    use crate::compaction::compaction_plan::Level0Limits;

    pub(in crate::compaction::picker) const LIMITS: CompactionLimits = CompactionLimits {
        target_file_size: 2 << 20,
        scales_with_level: false,
        level_0: Level0Limits::DEFAULT,
        slice_bytes: 256 << 20,
    };
    const MB: u64 = 1 << 20;

    /// Returns a version set with one file per line:
    /// `level number MiB smallest@sequence largest@sequence`.
    pub(crate) fn set(files: &str) -> VersionSet {
        let key = |text: &str| {
            let (user_key, sequence) = text.split_once('@').unwrap();
            InternalKey::new(user_key.as_bytes(), sequence.parse().unwrap(), ValueType::Value)
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

    pub(in crate::compaction::picker) fn text(compaction: Option<Compaction>) -> String {
        let numbers = |files: &[Arc<FileMeta>]| {
            files.iter().map(|file| file.number.to_string()).collect::<Vec<_>>().join(" ")
        };
        compaction.map_or("nothing".into(), |compaction| {
            let inputs: Vec<_> = compaction.inputs.iter().map(|(_, files)| numbers(files)).collect();
            format!(
                "{} to {}: {}, above {}",
                compaction.level(),
                compaction.output_level(),
                inputs.join(" + "),
                numbers(&compaction.grandparents)
            )
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
        let files = format!(
            "{level_0} 1 5 1 l@0 o@0\n 1 6 1 x@0 y@0\n 2 7 60 n@0 p@0\n 2 8 9 q@0 z@0\n 3 9 1 o@0 r@0"
        );
        check(&files, "0 to 3: 4 3 2 1 + 5 + 7 + 9, above ");
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
        let scaled = CompactionLimits { scales_with_level: true, ..LIMITS };
        assert_eq!([size(scaled, 1), size(scaled, 640), size(scaled, 1 << 20)], [2, 10, 64]);
        assert_eq!(size(LIMITS, 1 << 20), 2);
    }

    #[test]
    fn read_compaction_when_no_level_is_full() {
        let set = set("1 1 1 a@1 c@1\n 2 2 1 b@0 d@0");
        let hint = (1, Arc::clone(&set.version.levels[1][0]));
        assert_eq!(text(pick(&set, Some(&hint), &LIMITS)), "1 to 2: 1 + 2, above ");
    }

    #[test]
    fn read_compaction_of_level_0_goes_to_base_level() {
        let set = set("0 1 1 a@9 c@9\n 0 2 1 b@8 d@8\n 3 3 9 a@0 x@0\n 4 4 40 a@0 x@0");
        let hint = (0, Arc::clone(&set.version.levels[0][0]));
        assert_eq!(text(pick(&set, Some(&hint), &LIMITS)), "0 to 3: 2 1 +  +  + 3, above 4");
    }

    #[test]
    fn read_compaction_ignores_missing_file() {
        let hint = (1, Arc::clone(&set("1 1 1 a@1 c@1").version.levels[1][0]));
        assert_eq!(text(pick(&set("1 2 1 a@1 c@1\n 2 3 1 a@0 c@0"), Some(&hint), &LIMITS)), "nothing");
        let set = set("6 1 1 a@1 c@1");
        let hint = (6, Arc::clone(&set.version.levels[6][0]));
        assert_eq!(text(pick(&set, Some(&hint), &LIMITS)), "nothing");
    }

    #[test]
    fn ingested_table_goes_to_deepest_free_level() {
        let range = KeyRange { begin: Some(b"c"), end: Some(b"e") };
        let level = |files: &str, megabytes: u64, reserved| {
            pick_level_for_ingest(&set(files).version, range, megabytes * MB, reserved)
        };
        assert_eq!(level("", 1, None), 2);
        assert_eq!(level("", 5_000, None), 4, "LevelDB compacts level 3 above 1 GB");
        assert_eq!(level("", 1 << 40, None), 6);
        assert_eq!(level("3 1 50 x@1 y@1", 20, None), 3);
        assert_eq!(level("2 1 50 x@1 y@1", 5_000, None), 4, "the tables outweigh the database");
        assert_eq!(level("2 1 5000 x@1 y@1", 4_000, None), 2, "a deeper level would move level 2");
        assert_eq!(level("0 1 1 a@1 x@1\n 2 2 9 a@0 x@0", 1, None), 1);
        assert_eq!(level("2 2 9 y@0 z@0", 1, Some(2)), 1, "a compaction writes to level 2");
        assert_eq!(level("1 1 1 a@1 x@1\n 2 2 9 a@0 x@0", 1, None), 3);
        let all = (1..7).map(|level| format!("{level} {level} 1 a@1 x@1\n")).collect::<String>();
        assert_eq!(level(&all, 1, None), 0);
    }

    #[test]
    fn flush_goes_to_deepest_level_without_overlap() {
        let level = |files: &str| pick_level_for_memtable_output(&set(files).version, b"c", b"e", &LIMITS);
        assert_eq!(level(""), 2);
        assert_eq!(level("0 1 1 d@1 x@1"), 0);
        assert_eq!(level("1 1 1 d@1 x@1"), 0);
        assert_eq!(level("2 1 1 d@1 x@1"), 1);
        assert_eq!(level("3 1 30 d@1 x@1"), 1, "too many bytes below level 2");
    }
}
