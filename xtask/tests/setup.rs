//! The script `.ci/setup` on a machine with everything, and on one without Rust.
#![allow(
    clippy::disallowed_methods,
    reason = "creates a directory of tools; no code of the database runs here"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/setup")
}

/// Runs the script with `bash`, whose path does not depend on `PATH`.
fn setup(purpose: &str, path: Option<&Path>) -> Output {
    let mut command = Command::new("/bin/bash");
    command.arg(script()).arg(purpose);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().expect("bash starts")
}

/// `make build` and `make run` call it each time.
#[test]
fn quiet_when_everything_is_installed() {
    let Output { status, stdout, stderr } = setup("build", None);
    let text = [stdout, stderr].concat();
    assert!(status.success() && text.is_empty(), "{status}: {}", String::from_utf8_lossy(&text));
}

/// The message names one command that installs Rust, with the tools of the machine.
#[test]
fn without_rust() {
    for (tool, command) in [
        (None, "apt-get install -y curl ca-certificates && curl "),
        (Some("curl"), "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y\n"),
        (Some("wget"), "    wget -qO- https://sh.rustup.rs | sh -s -- -y\n"),
    ] {
        let name = format!("terrace-setup-{}-{}", std::process::id(), tool.unwrap_or("none"));
        let tools = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&tools).expect("the directory is new");
        let links = ["dirname"].into_iter().chain(tool);
        for link in links {
            std::os::unix::fs::symlink("/usr/bin/dirname", tools.join(link)).expect("the link is new");
        }
        let Output { status, stderr, .. } = setup("build", Some(&tools));
        std::fs::remove_dir_all(&tools).expect("the directory exists");
        let text = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && text.contains("Rust is missing.") && text.contains(command), "{text}");
    }
}
