//! The result of `make install`, used by projects with CMake and pkg-config after the prefix was
//! moved.

use std::path::{Path, PathBuf};
use std::process::Command;

use terrace_testkit::emulator;

use crate::library::{
    c_compiler, crate_dir, cxx_compiler, has_program, library_dir, run_command, stock_library,
};

/// Command that installs to `prefix`.
fn install(prefix: &Path) -> Command {
    let mut command = Command::new(crate_dir().join("install.sh"));
    command.arg(library_dir()).arg(prefix);
    command
}

/// All files and directories below `directory`, relative to it, sorted.
fn tree(directory: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    let text = stdout_of(find.args([".", "-mindepth", "1"]).current_dir(directory));
    let mut paths: Vec<String> = text.lines().map(|line| line[2..].to_owned()).collect();
    paths.sort();
    paths
}

/// Installs to a prefix and moves it.
fn prefix(directory: &Path) -> PathBuf {
    let first = directory.join("first");
    let moved = directory.join("moved");
    run_command(&mut install(&first));
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
    let notices = std::fs::read_to_string(documents.join("THIRD-PARTY.md")).unwrap();
    for name in ["snap", "zstd-sys", "arc-swap"] {
        assert!(notices.contains(&format!("| {name} | ")), "{name}");
    }
    for part in ["| LevelDB 1.23, ", "| zstd, ", "| GCC's libstdc++ "] {
        assert!(notices.contains(part), "{part}");
    }
    assert!(documents.join("LICENSE-MIT").exists() && documents.join("LICENSE-APACHE").exists());
    let leveldb = std::fs::read_to_string(documents.join("LICENSE-LEVELDB")).unwrap();
    assert!(leveldb.starts_with("Copyright (c) 2011 The LevelDB Authors."), "{leveldb}");
    let header = std::fs::read_to_string(documents.join("../../../include/leveldb/db.h")).unwrap();
    assert!(header.starts_with("// Copyright (c) 2011 The LevelDB Authors."), "{header}");
}

/// Regression: after the removal that the guide described, headers, the CMake package and the
/// pkg-config file remained, and builds against the distribution's LevelDB failed.
#[test]
fn uninstall_removes_everything() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    std::fs::create_dir_all(prefix.join("include")).unwrap();
    std::fs::write(prefix.join("include/other.h"), "").unwrap();
    let before = tree(&prefix);
    run_command(&mut install(&prefix));
    assert!(prefix.join("lib/cmake/leveldb/leveldbConfig.cmake").exists());
    // An installation over an earlier one, which had a file that this one lacks.
    std::fs::write(prefix.join("lib/libold.so"), "").unwrap();
    let list = prefix.join("share/terrace/installed");
    let lines = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, format!("lib/libold.so\n{lines}")).unwrap();
    run_command(&mut install(&prefix));
    assert!(!prefix.join("lib/libold.so").exists());
    run_command(Command::new(crate_dir().join("install.sh")).arg("--uninstall").arg(&prefix));
    assert_eq!(tree(&prefix), before);
    let mut again = Command::new(crate_dir().join("install.sh"));
    let refused = again.arg("--uninstall").arg(&prefix).output().unwrap();
    assert!(!refused.status.success());
}

/// A build finds the distribution's LevelDB after `uninstall`, and runs with it.
#[test]
fn build_with_the_distribution_after_uninstall() {
    if !has_program("cmake") || stock_library().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    run_command(&mut install(&prefix));
    run_command(Command::new(crate_dir().join("install.sh")).arg("--uninstall").arg(&prefix));
    let project = directory.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let text = "cmake_minimum_required(VERSION 3.9)\nproject(asks CXX)\nfind_package(Threads REQUIRED)\nfind_package(leveldb REQUIRED)\n\
                add_executable(in_cxx in_cxx.cc)\ntarget_link_libraries(in_cxx leveldb::leveldb)\n";
    std::fs::write(project.join("CMakeLists.txt"), text).unwrap();
    std::fs::copy(crate_dir().join("tests/consumer/in_cxx.cc"), project.join("in_cxx.cc")).unwrap();
    let build = directory.path().join("build");
    let found = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run_command(Command::new("cmake").arg(found).arg("-S").arg(&project).arg("-B").arg(&build));
    run_command(Command::new("cmake").arg("--build").arg(&build));
    assert_eq!(stdout_of(Command::new(build.join("in_cxx")).current_dir(&directory)), IN_CXX);
    let libraries = stdout_of(Command::new("ldd").arg(build.join("in_cxx")));
    assert!(libraries.contains("libleveldb.so.1d => /") && !libraries.contains("prefix"), "{libraries}");
}

/// Regression: `make install PREFIX=/usr` replaced the headers of the package libleveldb-dev.
#[test]
fn files_of_another_package_are_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("usr");
    std::fs::create_dir_all(prefix.join("include/leveldb")).unwrap();
    let header = prefix.join("include/leveldb/db.h");
    std::fs::write(&header, "distribution").unwrap();
    let before = tree(&prefix);
    let refused = install(&prefix).output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("include/leveldb/db.h") && text.contains("FORCE=1"),
        "{text}"
    );
    assert_eq!((tree(&prefix), std::fs::read_to_string(&header).unwrap()), (before, "distribution".into()));
    run_command(install(&prefix).env("FORCE", "1"));
    assert_ne!(std::fs::read_to_string(&header).unwrap(), "distribution");
    // Its own files need no force.
    run_command(&mut install(&prefix));
}

/// The name of the library on Fedora, on Arch and in LevelDB's own builds.
#[test]
fn program_of_another_distribution() {
    let directory = tempfile::tempdir().unwrap();
    let stub = directory.path().join("libleveldb.so");
    let source = directory.path().join("stub.c");
    std::fs::write(&source, "int leveldb_major_version(void) { return 0; }\n").unwrap();
    let mut compile = c_compiler();
    run_command(compile.args(["-shared", "-Wl,-soname,libleveldb.so.1", "-o"]).arg(&stub).arg(&source));
    let program = directory.path().join("program");
    std::fs::write(
        &source,
        "int leveldb_major_version(void);\nint main(void) { return leveldb_major_version() == 1 ? 0 : 1; }\n",
    )
    .unwrap();
    run_command(c_compiler().arg(&source).arg(&stub).arg("-o").arg(&program));
    let prefix = prefix(directory.path());
    run_command(emulator::command(program).env("LD_LIBRARY_PATH", prefix.join("lib")));
}

/// Programs with the static libraries need no shared library of LevelDB.
#[test]
fn static_libraries() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = prefix(directory.path());
    let memory = directory.path().join("memory.cc");
    let text = "#include <cstdio>\n#include \"leveldb/db.h\"\n#include \"leveldb/env.h\"\n#include \"leveldb/helpers/memenv.h\"\n\
                int main() {\n  leveldb::Env* env = leveldb::NewMemEnv(leveldb::Env::Default());\n\
                  leveldb::Options options;\n  options.create_if_missing = true;\n  options.env = env;\n\
                  leveldb::DB* db;\n  leveldb::Status status = leveldb::DB::Open(options, \"nowhere\", &db);\n\
                  if (status.ok()) status = db->Put(leveldb::WriteOptions(), \"key\", \"value\");\n\
                  std::puts(status.ToString().c_str());\n  delete db;\n  delete env;\n}\n";
    std::fs::write(&memory, text).unwrap();
    // Templates of the C++ library with unique symbols, which the shim uses, too.
    let templates = directory.path().join("templates.cc");
    let text = "#include <cstdio>\n#include <memory>\n#include <string>\n#include \"leveldb/db.h\"\n\
                int main(int argc, char**) {\n  auto options = std::make_shared<leveldb::Options>();\n\
                  leveldb::DB* db;\n  leveldb::Status status = leveldb::DB::Open(*options, \"missing\", &db);\n\
                  std::puts((std::to_string(argc) + (status.ok() ? \" open\" : \" error\")).c_str());\n}\n";
    std::fs::write(&templates, text).unwrap();
    let consumer = crate_dir().join("tests/consumer");
    for (source, expected) in [
        (consumer.join("in_c.c"), IN_C),
        (consumer.join("in_cxx.cc"), IN_CXX),
        (memory, "OK\n"),
        (templates, "1 error\n"),
    ] {
        let program = directory.path().join("program");
        let object = directory.path().join("program.o");
        let is_c = source.extension().is_some_and(|e| e == "c");
        let mut compile = if is_c { c_compiler() } else { cxx_compiler() };
        compile.arg("-DLEVELDB_SHARED_LIBRARY").arg("-I").arg(prefix.join("include")).arg("-c").arg(&source);
        run_command(compile.arg("-o").arg(&object));
        let mut link = cxx_compiler();
        link.arg(&object).arg(prefix.join("lib/libmemenv.a")).arg(prefix.join("lib/libleveldb.a"));
        run_command(link.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program));
        assert_eq!(stdout_of(emulator::command(&program).current_dir(&directory)), expected);
        let libraries = stdout_of(Command::new("readelf").arg("-d").arg(&program));
        assert!(!libraries.contains("leveldb"), "{libraries}");
    }
    let symbols = stdout_of(
        Command::new("nm").args(["--defined-only", "--extern-only"]).arg(prefix.join("lib/libleveldb.a")),
    );
    assert!(symbols.contains("leveldb_open") && !symbols.contains("rust_"), "{symbols}");
}

/// The package of Debian owns no file of `libleveldb1d`, and `with-terrace` runs programs with it.
#[test]
fn debian_package() {
    if !has_program("dpkg-deb") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut build = Command::new(crate_dir().join("deb.sh"));
    let built = stdout_of(build.arg(library_dir()).arg(env!("CARGO_PKG_VERSION")).arg(directory.path()));
    let names: Vec<&str> = built.lines().filter_map(|path| Path::new(path).file_name()?.to_str()).collect();
    assert!(
        matches!(names[..], [a, b] if a.starts_with("terrace-dropin_") && b.starts_with("libterrace-dev_"))
    );
    let package = Path::new(built.lines().next().unwrap());
    assert!(package.exists(), "{built}");
    let root = directory.path().join("root");
    run_command(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root));
    let files: Vec<String> = tree(&root).into_iter().filter(|path| !root.join(path).is_dir()).collect();
    let own = [
        "usr/lib/terrace/",
        "usr/bin/with-terrace",
        "usr/share/doc/terrace-dropin/",
        "usr/share/man/man1/with-terrace.1.gz",
    ];
    assert!(files.iter().all(|file| own.iter().any(|own| file.starts_with(own))), "{files:?}");
    let control = stdout_of(Command::new("dpkg-deb").arg("--field").arg(package));
    for field in ["Package: terrace-dropin", "Architecture: ", "Depends: libc6", "Maintainer: "] {
        assert!(control.contains(field), "{control}");
    }
    assert!(!control.contains("Replaces") && !control.contains("Conflicts"), "{control}");
    if stock_library().is_none() {
        return;
    }
    // A program that was built for the distribution's library.
    let program = directory.path().join("program");
    let mut compile = Command::new("c++");
    run_command(
        compile.arg(crate_dir().join("tests/consumer/in_cxx.cc")).args(["-lleveldb", "-o"]).arg(&program),
    );
    let with_terrace = root.join("usr/bin/with-terrace");
    assert_eq!(stdout_of(Command::new(&with_terrace).arg(&program).current_dir(&directory)), IN_CXX);
    let log = std::fs::read_to_string(directory.path().join("db/LOG")).unwrap();
    assert!(log.contains("Log #2 is "), "no line of Terrace: {log}");
    let libraries = stdout_of(Command::new(&with_terrace).arg("ldd").arg(&program));
    assert!(libraries.contains("usr/lib/terrace/libleveldb.so.1d"), "{libraries}");
    let usage = Command::new(&with_terrace).output().unwrap();
    assert!(!usage.status.success() && usage.stdout.starts_with(b"Usage: with-terrace"), "{usage:?}");
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
