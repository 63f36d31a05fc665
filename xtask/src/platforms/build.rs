//! Builds of a row.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::table::{Compilers, Platform, Share};
use crate::tidy::root;

/// Program that contains tests.
pub(super) struct TestProgram {
    /// Directory of its package, in which it runs.
    pub(super) package: PathBuf,
    pub(super) path: PathBuf,
}

impl TestProgram {
    /// Returns the name of the package.
    pub(super) fn package_name(&self) -> &str {
        self.package.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// Builds the packages of `share`. Returns the programs of the tests, or None if the build failed.
pub(super) fn build(row: &Platform, share: &Share, log: &File) -> io::Result<Option<Vec<TestProgram>>> {
    if !share.built.is_empty() && cargo(row, share.built, &[], log)?.is_none() {
        return Ok(None);
    }
    let messages = cargo(
        row,
        share.tested,
        &["--tests", "--examples", "--message-format=json-render-diagnostics"],
        log,
    )?;
    Ok(messages.map(|messages| messages.lines().filter_map(test_program).collect()))
}

/// Runs cargo. Returns its output if it succeeds.
fn cargo(row: &Platform, packages: &[&str], arguments: &[&str], log: &File) -> io::Result<Option<String>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root()).arg(match row.compilers {
        Compilers::Gnu(_) => "build",
        Compilers::Zig => "zigbuild",
    });
    cargo.args(["--quiet", "--profile", "ci", "--target", row.target]).args(arguments);
    packages.iter().for_each(|package| {
        cargo.args(["--package", package]);
    });
    if let Compilers::Gnu(prefix) = row.compilers {
        cargo.envs(gnu_compilers(row.target, prefix));
    }
    let output = cargo.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(Stdio::piped()).output()?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns the environment variables with the compilers, for cargo and for build scripts.
fn gnu_compilers(target: &str, prefix: &str) -> [(String, String); 4] {
    let target = target.replace('-', "_");
    [
        (format!("CARGO_TARGET_{}_LINKER", target.to_uppercase()), format!("{prefix}gcc")),
        (format!("CC_{target}"), format!("{prefix}gcc")),
        (format!("CXX_{target}"), format!("{prefix}g++")),
        (format!("AR_{target}"), format!("{prefix}ar")),
    ]
}

/// Reads a message of cargo: a program of tests has the profile of tests.
fn test_program(message: &str) -> Option<TestProgram> {
    if !message.contains(r#""test":true},"features""#) {
        return None;
    }
    let path = PathBuf::from(text_of(message, "executable")?);
    let package = PathBuf::from(text_of(message, "manifest_path")?).parent()?.to_path_buf();
    Some(TestProgram { package, path })
}

/// Returns the text of a field. Paths of cargo have no characters that JSON escapes here.
fn text_of<'a>(message: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!(r#""{field}":""#))?;
    rest.split('"').next()
}
