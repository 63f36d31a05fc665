//! C programs that are compiled against our headers and run with our library. A file beside each
//! holds its expected output. Programs that stay within LevelDB's interface also run with the stock
//! library, which must produce the same output.
//!
//! Each program but two is compiled with AddressSanitizer, which checks the memory that crosses the
//! interface in both directions, and leaks.

use std::path::{Path, PathBuf};

use terrace_testkit::emulator;

use crate::library::{c_compiler, crate_dir, is_emulated, library_dir, run_command, stock_library};

/// Compiles `tests/c/NAME.c` in `directory`.
fn compile(name: &str, directory: &Path, flags: &[&str]) -> PathBuf {
    let program = directory.join(name);
    let mut cc = c_compiler();
    cc.args(["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g"]).args(flags);
    cc.arg("-I").arg(crate_dir().join("../../include")).arg(crate_dir().join(format!("tests/c/{name}.c")));
    cc.arg("-o").arg(&program).arg("-L").arg(library_dir()).args(["-lleveldb", "-lpthread"]);
    run_command(&mut cc);
    program
}

/// Returns the output of `program` with the library in `libraries`.
pub(crate) fn program_output(program: &Path, libraries: &Path) -> String {
    program_output_in(tempfile::tempdir().unwrap().path(), program, libraries)
}

/// Returns the output of `program` like [`program_output`], in `directory`.
pub(crate) fn program_output_in(directory: &Path, program: &Path, libraries: &Path) -> String {
    let mut run = emulator::command(program);
    // Binds all symbols at the start, so that a missing one is found.
    run.env("LD_LIBRARY_PATH", libraries).env("LD_BIND_NOW", "1").env("TEST_TMPDIR", "test");
    String::from_utf8(run_command(run.current_dir(directory)).stdout).unwrap()
}

#[track_caller]
fn check(name: &str, flags: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(name, directory.path(), flags);
    let expected = crate_dir().join(format!("tests/c/{name}.txt"));
    let output = program_output(&program, library_dir());
    if std::env::var_os("TERRACE_UPDATE_EXPECTED").is_some() {
        std::fs::write(&expected, &output).unwrap();
    }
    assert_eq!(output, std::fs::read_to_string(expected).unwrap());
}

/// Flags of the compiler for a program that the memory checks cover.
const SANITIZED: &[&str] = &["-fsanitize=address"];

#[track_caller]
fn check_with_stock(name: &str, flags: &[&str]) {
    check(name, flags);
    let Some(stock) = stock_library() else { return };
    let directory = tempfile::tempdir().unwrap();
    let flags: Vec<&str> = flags.iter().copied().filter(|flag| !SANITIZED.contains(flag)).collect();
    let program = compile(name, directory.path(), &flags);
    let expected = std::fs::read_to_string(crate_dir().join(format!("tests/c/{name}.txt"))).unwrap();
    assert_eq!(program_output(&program, stock.parent().unwrap()), expected, "LevelDB prints something else");
}

#[test]
fn every_function_of_leveldb() {
    check_with_stock("leveldb_api", SANITIZED);
}

#[test]
fn every_function_of_terrace() {
    check("terrace_api", SANITIZED);
}

#[test]
fn calls_for_event_loops_and_bindings() {
    check("nonblocking_calls", SANITIZED);
}

#[test]
fn transactions() {
    check("transactions", SANITIZED);
}

/// Without AddressSanitizer, the locks and the counters of the program meet at full speed.
#[test]
fn transactions_at_full_speed() {
    check("transactions", &[]);
}

#[test]
fn destroy_order_and_null_handles() {
    check("lifetimes", SANITIZED);
}

#[test]
fn threads() {
    check_with_stock("threads", SANITIZED);
}

/// AddressSanitizer would need more stack than the program has.
#[test]
fn small_stack() {
    check_with_stock("small_stack", &[]);
}

/// Flags that run a program in a thread with a stack of 28 KiB.
fn on_small_stack() -> Vec<String> {
    let wrapper = crate_dir().join("tests/c/on_small_stack.c");
    vec!["-Dmain=program_main".into(), "-DSTACK_SIZE=28672".into(), wrapper.to_str().unwrap().into()]
}

/// Opening, repairing, destroying and all other functions need no more stack than in LevelDB's
/// programs with thousands of threads.
#[test]
fn every_function_of_leveldb_on_a_small_stack() {
    let flags = on_small_stack();
    check_with_stock("leveldb_api", &flags.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn every_function_of_terrace_on_a_small_stack() {
    let flags = on_small_stack();
    check("terrace_api", &flags.iter().map(String::as_str).collect::<Vec<_>>());
}

/// AddressSanitizer cannot fork beside threads: its allocator leaves its locks as they are.
#[test]
fn forks_and_daemon() {
    if is_emulated("the emulator aborts a child of a process with threads") {
        return;
    }
    check("daemon", &[]);
}

/// The same forks, before the processes have background threads.
#[test]
fn forks_and_daemon_with_one_thread() {
    if is_emulated("the emulator has a thread of its own") {
        return;
    }
    check("daemon", &["-fsanitize=address", "-DONE_THREAD"]);
}

/// The program loads the library itself, so the linker must drop the dependency. AddressSanitizer
/// would report the memory that the unloaded library cannot free.
#[test]
fn fork_after_unload() {
    check("unload", &["-Wl,--as-needed"]);
}
