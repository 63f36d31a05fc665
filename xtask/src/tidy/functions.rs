//! Length of the functions of the product crates, tests left out.
//!
//! The length of a function is the number of its lines with code, from `fn` to the closing brace.

use std::fmt::Write;

use super::Problem;
use super::code::{Code, group_len};
use super::tree::Tree;

/// Maximum of the median: most functions of the admired code of this field have 4 to 8 lines.
const MEDIAN: usize = 7;
/// Maximum for nine functions in ten.
const NINE_IN_TEN: usize = 20;
/// Maximum for a single function, which is one screen.
const LONGEST: usize = 60;
/// Number of the longest functions that the report lists.
const LISTED: usize = 10;

struct Function {
    file: String,
    line: usize,
    name: String,
    len: usize,
}

fn functions(tree: &Tree) -> Vec<Function> {
    let mut found = Vec::new();
    for source in tree.sources.iter().filter(|source| source.is_product()) {
        let code = Code::new(source);
        found.extend(code.words("fn").filter_map(|at| function(&code, at)));
    }
    found.sort_by_key(|function| function.len);
    found
}

/// The function at `at`, unless it has no body or is part of a test.
fn function(code: &Code<'_>, at: usize) -> Option<Function> {
    let line = code.line(at);
    let name = code.ident(code.skip_spaces(at + "fn".len()));
    if name.is_empty() || code.source.is_test(line) {
        return None;
    }
    let body = code.function_body(at);
    if !code.text[body..].starts_with('{') {
        return None;
    }
    let end = code.line(body + group_len(&code.text[body..]) - 1);
    let lines = &code.source.lines[line - 1..end];
    let len = lines.iter().filter(|line| !line.code.trim().is_empty()).count();
    Some(Function { file: code.source.path.clone(), line, name: name.to_owned(), len })
}

/// Length of the function below which `share` percent of the functions are.
fn percentile(functions: &[Function], share: usize) -> usize {
    functions.get((functions.len() * share / 100).min(functions.len().saturating_sub(1))).map_or(0, |f| f.len)
}

/// Figures, and the longest functions.
pub(super) fn report(tree: &Tree) -> String {
    let functions = functions(tree);
    let longest = functions.last().map_or(0, |function| function.len);
    let mut text = format!(
        "functions: {}; lines: median {} (limit {MEDIAN}), p90 {} (limit {NINE_IN_TEN}), longest {longest} (limit {LONGEST})\n",
        functions.len(),
        percentile(&functions, 50),
        percentile(&functions, 90),
    );
    for Function { file, line, name, len } in functions.iter().rev().take(LISTED) {
        // Writing to a `String` never fails.
        let _ = writeln!(text, "{len:>6}  {name}  {file}:{line}");
    }
    text.push('\n');
    text
}

/// Figures and functions above their limits.
pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let functions = functions(tree);
    let mut problems = Vec::new();
    for (name, share, limit) in [("median", 50, MEDIAN), ("90th percentile", 90, NINE_IN_TEN)] {
        let lines = percentile(&functions, share);
        if lines > limit {
            problems.push(problem("functions", 0, format!("the {name} is {lines} lines"), limit));
        }
    }
    for function in functions.iter().filter(|function| function.len > LONGEST) {
        let finding = format!("`{}` has {} lines", function.name, function.len);
        problems.push(problem(&function.file, function.line, finding, LONGEST));
    }
    problems
}

fn problem(file: &str, line: usize, finding: String, limit: usize) -> Problem {
    let reason = format!("the limit is {limit}");
    Problem { file: file.into(), line, finding, reason, fix: "split the function at its ideas".into() }
}

#[cfg(test)]
mod tests {
    use super::super::expect;
    use super::*;

    const FILE: &str = "crates/terrace/src/a.rs";

    fn body(lines: usize) -> String {
        format!("fn f(\n) {{\n// A comment.\n\n{}}}\n", "a;\n".repeat(lines - 3))
    }

    #[test]
    fn one_long_function() {
        let short = "fn g() {}\n".repeat(10);
        expect(check, &[(FILE, &(body(61) + &short))], &[&format!("{FILE}:1: `f` has 61 lines")]);
        expect(check, &[(FILE, &(body(60) + &short))], &[]);
    }

    #[test]
    fn many_long_functions() {
        let found = ["functions:0: the median is 21 lines", "functions:0: the 90th percentile is 21 lines"];
        expect(check, &[(FILE, &body(21).repeat(3))], &found);
    }

    #[test]
    fn tests_declarations_and_pointers() {
        let text = format!("#[test]\n{}trait A {{ fn a(); }} type B = fn(u8) -> u8;", body(61));
        expect(check, &[(FILE, &text)], &[]);
        expect(check, &[("crates/terrace/tests/it/a.rs", &body(61))], &[]);
    }
}
