//! `libterrace.a`: the C functions under `terrace_` names, for programs that also link LevelDB.

use std::collections::BTreeSet;
use std::process::Command;

use crate::c_programs::program_output;
use crate::library::{c_compiler, crate_dir, library_dir, run_command, stock_library};

/// Returns the symbols of the archive that `nm` lists with a flag.
fn symbols_of_archive(flag: &str) -> BTreeSet<String> {
    let archive = library_dir().join("libterrace.a");
    let listed = run_command(Command::new("nm").args([flag, "-g", "--format=posix"]).arg(archive)).stdout;
    let listed = String::from_utf8(listed).unwrap();
    let symbols = listed.lines().filter(|line| !line.ends_with(':'));
    symbols.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Returns the functions that `terrace.h` declares.
fn declared_functions() -> BTreeSet<String> {
    let header = std::fs::read_to_string(crate_dir().join("../../include/terrace/terrace.h")).unwrap();
    let called = header.split('(').filter_map(|before| before.rsplit([' ', '*', '\n']).next());
    called.filter(|name| name.starts_with("terrace_") && !name.contains('.')).map(str::to_owned).collect()
}

#[test]
fn visible_names_are_those_of_the_header() {
    assert_eq!(symbols_of_archive("--defined-only"), declared_functions());
}

/// A C program needs no C++ library for it.
#[test]
fn no_symbol_of_the_cxx_library_is_needed() {
    let needed = symbols_of_archive("--undefined-only");
    let cxx: Vec<_> =
        needed.iter().filter(|name| name.starts_with("_Z") || name.starts_with("__gxx")).collect();
    assert!(cxx.is_empty() && needed.contains("malloc"), "{cxx:?} of {needed:?}");
}

/// A download of every Go program: 3.5 MB compressed is the limit of its module.
#[test]
fn archive_has_neither_debug_sections_nor_bitcode() {
    let archive = library_dir().join("libterrace.a");
    let sections = run_command(Command::new("readelf").args(["-SW"]).arg(archive)).stdout;
    let sections = String::from_utf8(sections).unwrap();
    assert!(sections.contains(".text"));
    assert!(!sections.contains(".debug") && !sections.contains(".llvm"), "{sections}");
}

#[test]
fn one_program_with_leveldb_and_terrace() {
    let Some(stock) = stock_library() else { return };
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("beside_leveldb");
    let mut cc = c_compiler();
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
        .arg("-I")
        .arg(crate_dir().join("../../include"));
    cc.arg(crate_dir().join("tests/c/beside_leveldb.c")).arg("-o").arg(&program);
    cc.arg(library_dir().join("libterrace.a")).arg(&stock).args(["-lpthread", "-ldl", "-lm"]);
    run_command(&mut cc);
    let expected = std::fs::read_to_string(crate_dir().join("tests/c/beside_leveldb.txt")).unwrap();
    assert_eq!(program_output(&program, stock.parent().unwrap()), expected);
}
