//! The result of `make install`, used by projects with CMake and pkg-config after the prefix was
//! moved.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::library::{crate_dir, has_program, library_dir, run_command};

/// Installs to a prefix and moves it.
fn prefix(directory: &Path) -> PathBuf {
    let first = directory.join("first");
    let moved = directory.join("moved");
    run_command(Command::new(crate_dir().join("install.sh")).arg(library_dir()).arg(&first));
    std::fs::rename(first, &moved).unwrap();
    moved
}

fn stdout_of(command: &mut Command) -> String {
    String::from_utf8(run_command(command).stdout).unwrap()
}

const IN_C: &str = concat!("LevelDB 1.23, Terrace ", env!("CARGO_PKG_VERSION"), "\n");
const IN_CXX: &str = "OK value\n";

#[test]
fn build_with_cmake() {
    if !has_program("cmake") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let build = directory.path().join("build");
    let found = format!("-DCMAKE_PREFIX_PATH={}", prefix(directory.path()).display());
    run_command(
        Command::new("cmake")
            .arg("-S")
            .arg(crate_dir().join("tests/consumer"))
            .arg("-B")
            .arg(&build)
            .arg(found),
    );
    run_command(Command::new("cmake").arg("--build").arg(&build));
    assert_eq!(stdout_of(&mut Command::new(build.join("in_c"))), IN_C);
    assert_eq!(stdout_of(Command::new(build.join("in_cxx")).current_dir(&directory)), IN_CXX);
}

/// A user of the binary library needs the licences of all that it contains.
#[test]
fn licences_are_installed() {
    let directory = tempfile::tempdir().unwrap();
    let documents = prefix(directory.path()).join("share/doc/terrace");
    let notices = std::fs::read_to_string(documents.join("THIRD-PARTY-NOTICES.md")).unwrap();
    for name in ["snap", "zstd-sys", "arc-swap"] {
        assert!(notices.contains(&format!("| {name} | ")), "{name}");
    }
    assert!(documents.join("LICENSE-MIT").exists() && documents.join("LICENSE-APACHE").exists());
}

/// The config file rejects newer versions, whose options the headers lack.
#[test]
fn cmake_version_check() {
    if !has_program("cmake") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let found = format!("-Dleveldb_DIR={}/lib/cmake/leveldb", prefix(directory.path()).display());
    for (requested, compatible) in [("1.20", true), ("1.23", true), ("1.24", false), ("2.0", false)] {
        let project = directory.path().join(requested);
        std::fs::create_dir(&project).unwrap();
        let lines = ["cmake_minimum_required(VERSION 3.9)", "project(asks NONE)"].join("\n");
        let text = format!("{lines}\nfind_package(leveldb {requested} REQUIRED)\n");
        std::fs::write(project.join("CMakeLists.txt"), text).unwrap();
        let mut cmake = Command::new("cmake");
        let result = cmake.arg(&found).arg("-S").arg(&project).arg("-B").arg(project.join("build")).output();
        let text = String::from_utf8_lossy(&result.as_ref().unwrap().stderr).into_owned();
        assert_eq!(result.unwrap().status.success(), compatible, "{requested}: {text}");
    }
}

#[test]
fn build_with_pkg_config() {
    if !has_program("pkg-config") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let prefix = prefix(directory.path());
    let mut requested = Command::new("pkg-config");
    let flags = stdout_of(
        requested
            .args(["--cflags", "--libs", "leveldb"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    for (compiler, source, expected) in [("cc", "in_c.c", IN_C), ("c++", "in_cxx.cc", IN_CXX)] {
        let program = directory.path().join(source).with_extension("");
        let mut compile = Command::new(compiler);
        compile.arg(crate_dir().join("tests/consumer").join(source)).args(flags.split_whitespace());
        run_command(compile.arg("-o").arg(&program));
        let mut run = Command::new(program);
        run.env("LD_LIBRARY_PATH", prefix.join("lib")).current_dir(&directory);
        assert_eq!(stdout_of(&mut run), expected);
    }
}
