//! Banned phrases of the prose rules in CONTRIBUTING.md.
//!
//! A pattern is a sequence of tokens; `|` separates the alternatives of one token. An exception is
//! a pattern that permits a match which it overlaps.

use super::Problem;
use super::text::{Paragraph, Token, paragraphs, strings};
use super::tree::Tree;

/// A phrase that the prose must not contain.
struct Phrase {
    patterns: &'static [&'static str],
    /// Contexts in which the phrase is good English or a term of the field.
    except: &'static [&'static str],
    /// Plain words for it.
    instead: &'static str,
}

const fn ban(patterns: &'static [&'static str], instead: &'static str) -> Phrase {
    Phrase { patterns, except: &[], instead }
}

static PHRASES: &[Phrase] = &[
    ban(&["go|goes|going|gone|went on with"], "\"is reused\", \"continues\""),
    ban(&["come|comes|coming|came to count"], "\"becomes live\", \"takes effect\""),
    ban(&["am|is|are|was|were|be|been|being told"], "\"is reported\", \"receives\""),
    ban(&["at work"], "\"is running\""),
    ban(&["anew"], "\"again\", \"rewritten\""),
    ban(&["in vain"], "\"wasted\", \"false positive\""),
    ban(&["dear|dearer|dearest"], "\"expensive\""),
    ban(&["at hand"], "\"cached\", \"available\""),
    ban(&["look-up|look-ups", "look-up's"], "\"get\", \"lookup\""),
    ban(&["walk|walks|walked|walking|walker|walkers"], "\"iterate\", \"scan\", \"iterator\""),
    ban(&["order of bytes", "order of their bytes", "order of its bytes"], "\"bytewise order\""),
    ban(&["the|this|that|a device|medium|devices|media"], "\"disk\", \"storage\""),
    ban(
        &["packed|unpacked|unpack|unpacks|unpacking|packs|packing", "pack a|the"],
        "\"compressed\", \"decompressed\"",
    ),
    Phrase {
        patterns: &["behind"],
        except: &[
            "fall|falls|fell|falling|lag|lags|lagging|left|leave|leaves|leaving behind",
            "behind a|an|the|its feature|flag|cfg|lock|mutex|pointer|reference|trait|wrapper|macro",
            "behind `",
        ],
        instead: "\"after\"",
    },
    Phrase {
        patterns: &[
            "; else",
            ": else",
            ". else",
            "( else",
            "would|could|may|might|must|can|will|that|which|what|who|whoever else",
        ],
        except: &[],
        instead: "\"otherwise\", or name the other thing",
    },
    Phrase {
        patterns: &[
            "merge|merges run|runs|start|starts|wait|waits|take|takes|keep|keeps|go|goes|write|writes|read|reads|end|ends",
            "merge|merges of level|levels|tables|files|a",
            "merge|merges from|into level|levels|the",
            "background|running|manual merge|merges|merging",
            "level|levels merge|merges",
            "flushes|flush and|or|, merge|merges",
            "merge|merges and|or|, flush|flushes",
            "a|the|no|each|every|by|of|between|during|until|with|for|after|before|while merge|merges",
        ],
        except: &[
            "merge|merges of iterators|runs|children|sorted",
            "merge iterator|iterators|operator|operators",
            "k-way merge",
        ],
        instead: "\"compaction\"",
    },
    Phrase {
        patterns: &["a|the|its|last|newest|older|newer|many|all|of|by|such|no|with delete|deletes"],
        except: &[
            "delete operation|operations|call|calls|request|requests|batch|record|records|range",
            "put|puts or|and|nor a|an|the|all|of delete|deletes",
        ],
        instead: "\"tombstone\"",
    },
    Phrase {
        patterns: &["room|rooms"],
        except: &[
            "make|makes|made|making|leave|leaves|left|has|have|is|need|needs room",
            "no|enough|more|much|less|little|free|of room",
            "room for|to|in|left",
        ],
        instead: "\"module\"",
    },
    Phrase {
        patterns: &["floor|floors"],
        except: &["floor of", "floor (", "floor division", "rounds|rounded to the floor"],
        instead: "\"layer\"",
    },
    ban(&["door|doors"], "\"binding\", \"interface\""),
    ban(&["house|houses|housed"], "\"architecture\", \"code\""),
];

/// Uses of banned phrases in comments, documents and strings of product code.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let prose = paragraphs(tree);
    let strings = strings(tree);
    prose
        .iter()
        .chain(&strings)
        .flat_map(|paragraph| PHRASES.iter().flat_map(|phrase| uses(phrase, paragraph)))
        .collect()
}

fn uses(phrase: &Phrase, paragraph: &Paragraph<'_>) -> Vec<Problem> {
    let tokens = &paragraph.tokens;
    let mut found = Vec::new();
    let mut end = 0;
    for start in 0..tokens.len() {
        let longest = phrase.patterns.iter().filter_map(|pattern| match_at(pattern, tokens, start)).max();
        let Some(len) = longest.filter(|_| start >= end) else { continue };
        end = start + len;
        if !phrase.except.iter().any(|pattern| overlaps(pattern, tokens, start, end)) {
            found.push(problem(phrase, paragraph.file, &tokens[start..end]));
        }
    }
    found
}

/// Number of tokens that `pattern` matches at `start`.
fn match_at(pattern: &str, tokens: &[Token], start: usize) -> Option<usize> {
    let mut len = 0;
    for element in pattern.split(' ') {
        let token = tokens.get(start + len)?;
        if !element.split('|').any(|word| word == token.text) {
            return None;
        }
        len += 1;
    }
    Some(len)
}

/// Whether `pattern` matches some tokens that overlap `start..end`.
fn overlaps(pattern: &str, tokens: &[Token], start: usize, end: usize) -> bool {
    let len = pattern.split(' ').count();
    (start.saturating_sub(len - 1)..end).any(|at| match_at(pattern, tokens, at).is_some())
}

fn problem(phrase: &Phrase, file: &str, tokens: &[Token]) -> Problem {
    let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    Problem {
        file: file.into(),
        line: tokens[0].line,
        finding: format!("\"{}\"", words.join(" ")),
        reason: "banned phrase".into(),
        fix: format!("write {}", phrase.instead),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    #[track_caller]
    fn found(text: &str, phrases: &[&str]) {
        let lines: Vec<String> = phrases.iter().map(|phrase| format!("a.md:1: \"{phrase}\"")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        expect(check, &[("a.md", text)], &lines);
    }

    #[test]
    fn over_two_lines_of_a_comment() {
        let text = "fn a() {}\n/// The log is gone on\n/// with later.\n";
        expect(check, &[("a.rs", text)], &["a.rs:2: \"gone on with\""]);
    }

    #[test]
    fn private_words() {
        found("A look-up walks.", &["look-up", "walks"]);
        found("That is dear; it is at hand.", &["dear", "at hand"]);
        found("Rooms of lower floors.", &["rooms", "floors"]);
    }

    #[test]
    fn words_with_a_plain_meaning() {
        found("There is room for 4 KiB. A reader may fall behind. MakeRoomForWrite.", &[]);
        found("A merge of iterators, the merging iterator.", &[]);
    }

    #[test]
    fn code_is_not_prose() {
        found("`walk` and `fn at_hand()`.", &[]);
        expect(check, &[("a.rs", "fn walk() { walk.at_hand(b\"at hand\") }")], &[]);
    }

    #[test]
    fn strings_of_product_code() {
        let text = "f(\"walks {n} tables\");\n#[test]\nfn t() { f(\"walks\") }";
        expect(
            check,
            &[("crates/terrace-cli/src/a.rs", text)],
            &["crates/terrace-cli/src/a.rs:1: \"walks\""],
        );
    }

    #[test]
    fn else_for_otherwise() {
        found("Held; else it would fail.", &["; else"]);
        found("What else may run.", &["what else"]);
        found("If present, else zero. Nothing else changes.", &[]);
    }

    #[test]
    fn merge_for_compaction() {
        found("Merges run in the background.", &["merges run"]);
        found("A merge of level 2.", &["a merge"]);
    }
}
