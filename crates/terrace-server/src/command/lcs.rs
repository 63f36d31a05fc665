//! LCS: the longest common subsequence of two strings.

use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::Entry;

/// Maximum number of cells of the table, four bytes each.
const MAX_CELLS: usize = 16 << 20;

/// Options of LCS.
#[derive(Debug, Default)]
struct LcsOptions {
    wants_len: bool,
    wants_indexes: bool,
    wants_match_len: bool,
    min_match_len: usize,
}

/// Common part: the first and the last position in both strings.
type Match = [(usize, usize); 2];

/// Lengths of the subsequences of all pairs of prefixes.
struct LcsTable {
    width: usize,
    cells: Vec<u32>,
}

impl LcsTable {
    fn new(first: &[u8], second: &[u8]) -> LcsTable {
        let width = second.len() + 1;
        let mut table = LcsTable { width, cells: vec![0; width * (first.len() + 1)] };
        for (i, a) in (1..).zip(first) {
            for (j, b) in (1..).zip(second) {
                table.cells[i * width + j] = if a == b {
                    table.at(i - 1, j - 1) + 1
                } else {
                    table.at(i - 1, j).max(table.at(i, j - 1))
                };
            }
        }
        table
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.width + j]
    }
}

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]
pub(super) fn lcs(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let entries = [call.get_strings(&args[1])?, call.get_strings(&args[2])?];
    let options = parse(args)?;
    let [first, second] = entries.each_ref().map(|entry| entry.as_ref().map_or(&[][..], Entry::value));
    let cells = (first.len() + 1).checked_mul(second.len() + 1);
    if cells.is_none_or(|cells| cells > MAX_CELLS) {
        return Err(Failure::reply("ERR Insufficient memory, transient memory for LCS exceeds 64 MiB"));
    }
    let table = LcsTable::new(first, second);
    let len = table.at(first.len(), second.len()) as usize;
    if options.wants_len {
        call.reply.count(len);
        return Ok(());
    }
    let (common, matches) = trace(first, second, &table, options.min_match_len);
    if options.wants_indexes {
        reply_matches(call, &matches, len, options.wants_match_len);
    } else {
        call.reply.bulk(common);
    }
    Ok(())
}

impl Call<'_> {
    /// String at `key`, with the error text of LCS.
    fn get_strings(&mut self, key: &[u8]) -> CommandResult<Option<Entry>> {
        self.get_string(key).map_err(|failure| match failure {
            Failure::Reply(_) => Failure::reply("ERR The specified keys must contain string values"),
            other => other,
        })
    }
}

fn parse(args: Args<'_>) -> CommandResult<LcsOptions> {
    let mut options = LcsOptions::default();
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "LEN") {
            options.wants_len = true;
        } else if args.is(index, "IDX") {
            options.wants_indexes = true;
        } else if args.is(index, "WITHMATCHLEN") {
            options.wants_match_len = true;
        } else if args.is(index, "MINMATCHLEN") && index + 1 < args.len() {
            index += 1;
            options.min_match_len = usize::try_from(args.integer(index)?.max(0)).unwrap_or(0);
        } else {
            return Err(Failure::SYNTAX);
        }
        index += 1;
    }
    if options.wants_len && options.wants_indexes {
        let text = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(Failure::reply(text));
    }
    Ok(options)
}

/// Returns the subsequence, and its common parts of at least `min_len` bytes from the last to the
/// first.
fn trace(first: &[u8], second: &[u8], table: &LcsTable, min_len: usize) -> (Vec<u8>, Vec<Match>) {
    let mut common = Vec::new();
    let mut matches = Vec::new();
    let mut current: Option<Match> = None;
    let mut i = first.len();
    let mut j = second.len();
    while i > 0 && j > 0 {
        let is_equal = first[i - 1] == second[j - 1];
        if is_equal {
            common.push(first[i - 1]);
            i -= 1;
            j -= 1;
            current = Some(match current {
                Some([(_, a_end), (_, b_end)]) => [(i, a_end), (j, b_end)],
                None => [(i, i), (j, j)],
            });
        } else if table.at(i - 1, j) > table.at(i, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
        if !is_equal || i == 0 || j == 0 {
            matches.extend(current.take().filter(|part| match_len(part) >= min_len));
        }
    }
    common.reverse();
    (common, matches)
}

fn match_len(part: &Match) -> usize {
    part[0].1 - part[0].0 + 1
}

fn reply_matches(call: &mut Call<'_>, matches: &[Match], len: usize, with_len: bool) {
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk("matches");
    reply.array(matches.len());
    for part in matches {
        reply.array(2 + usize::from(with_len));
        for (begin, end) in part {
            reply.array(2);
            reply.count(*begin);
            reply.count(*end);
        }
        if with_len {
            reply.count(match_len(part));
        }
    }
    reply.bulk("len");
    reply.count(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_redis() {
        let first = &b"ohmytext"[..];
        let second = &b"mynewtext"[..];
        let table = LcsTable::new(first, second);
        let (common, matches) = trace(first, second, &table, 0);
        assert_eq!(common, b"mytext");
        assert_eq!(matches, [[(4, 7), (5, 8)], [(2, 3), (0, 1)]]);
        assert_eq!(trace(first, second, &table, 4).1, [[(4, 7), (5, 8)]]);
    }

    #[test]
    fn nothing_in_common() {
        let table = LcsTable::new(b"ab", b"");
        assert_eq!(trace(b"ab", b"", &table, 0), (Vec::new(), Vec::new()));
    }
}
