//! `leveldb.dll`, and programs in C that use it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::directory;
use super::run::Counts;
use super::table::{Compilers, Platform};
use crate::bindings::target;
use crate::tidy::root;

/// Package of the library.
pub(super) const PACKAGE: &str = "terrace-capi";

/// Programs of `crates/terrace-capi/tests/c` that run.
const PROGRAMS: &[&str] = &["leveldb_api", "terrace_api", "nonblocking_calls", "lifetimes", "threads"];

/// Programs that need another system, with the reason.
const SKIPPED: &[(&str, &str)] = &[
    ("transactions.c, daemon.c, unload.c", "Windows has no fork"),
    ("small_stack.c", "pthread_attr_setstacksize of this C library keeps a larger stack"),
];

/// Links the library and runs the programs. Each counts as one test.
pub(super) fn run(row: &Platform, counts: &mut Counts, mut log: &File) -> io::Result<()> {
    let Compilers::Gnu(prefix) = row.compilers else { return Ok(()) };
    let library = directory().join("leveldb-dll");
    let archive = target().join(row.target).join("ci/libterrace_capi.a");
    let mut link = Command::new(root().join("crates/terrace-capi/link-windows.sh"));
    link.arg(&archive).arg(&library).env("PREFIX", prefix);
    let linked = link.stdin(Stdio::null()).output()?;
    log.write_all(&linked.stderr)?;
    if !linked.status.success() {
        counts.failed += 1;
        return Ok(());
    }
    for name in PROGRAMS {
        match run_program(row, prefix, &library, name)? {
            Ok(()) => counts.passed += 1,
            Err(output) => {
                counts.failed += 1;
                writeln!(log, "leveldb.dll: {name}.c FAILED\n{output}")?;
            }
        }
    }
    let skipped =
        SKIPPED.iter().map(|(name, reason)| format!("NOT TESTED: leveldb.dll with {name}: {reason}"));
    counts.untested.extend(skipped);
    Ok(())
}

/// Compiles and runs a program. Returns its output if it is not the expected one.
fn run_program(row: &Platform, prefix: &str, library: &Path, name: &str) -> io::Result<Result<(), String>> {
    let sources = root().join("crates/terrace-capi/tests/c");
    let program = library.join(format!("{name}.exe"));
    let mut compiler = Command::new(format!("{prefix}gcc"));
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(root().join("include"));
    // The functions of C99 print sizes.
    compiler.arg("-D__USE_MINGW_ANSI_STDIO=1").arg(sources.join(format!("{name}.c"))).arg("-o").arg(&program);
    compiler.arg("-L").arg(library).args(["-lleveldb", "-static-libgcc", "-Wl,-Bstatic", "-lpthread"]);
    let compiled = compiler.stdin(Stdio::null()).output()?;
    if !compiled.status.success() {
        return Ok(Err(String::from_utf8_lossy(&compiled.stderr).into_owned()));
    }
    let empty = library.join(format!("{name}.run"));
    let _ = fs::remove_dir_all(&empty);
    fs::create_dir_all(&empty)?;
    let output =
        row.start(&program).current_dir(&empty).env("TEST_TMPDIR", "test").stdin(Stdio::null()).output()?;
    // The C library of Windows ends lines with two characters, and Windows joins names by another
    // one.
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n").replace('\\', "/");
    let expected = fs::read_to_string(sources.join(format!("{name}.txt")))?.replace('\\', "/");
    if output.status.success() && text == expected {
        return Ok(Ok(()));
    }
    Ok(Err(format!("{}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr))))
}
