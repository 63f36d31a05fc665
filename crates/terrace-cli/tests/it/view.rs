//! `terrace view`: a page without a server, which changes nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests prepare files and wait for processes, and a failed step is a failed test"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use terrace::{Db, Options};

use crate::cli_test::CliTest;

/// Running view, with the address and the cookie of its page.
struct View {
    child: Child,
    address: String,
    cookie: String,
}

impl View {
    fn start(test: &CliTest, args: &[&str]) -> View {
        let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
            .current_dir(test.path(""))
            .args(["view", "db", "--page-port", "0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let link = line.trim_end().strip_prefix("page: http://").unwrap();
        let (address, path) = link.split_once('/').unwrap();
        let mut view = View { child, address: address.into(), cookie: String::new() };
        let response = view.get(&format!("/{path}"));
        let cookie = response.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
        view.cookie = cookie.split(';').next().unwrap().into();
        view
    }

    /// Requests a path and returns the response.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let View { address, cookie, .. } = self;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Ends the view with SIGTERM.
    fn end(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

/// Names and contents of the files of a directory.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn shows_a_database_and_changes_nothing() {
    let test = CliTest::with_entries("CH/Bern\t46.95\n");
    let before = files(&test.path("db"));
    let view = View::start(&test, &[]);
    assert!(view.get("/api/v1/keys").contains("{\"key\":{\"text\":\"CH/Bern\"},\"type\":\"raw\""));
    assert!(view.get("/api/v1/state").contains("\"readOnly\":true"));
    // Others may read meanwhile.
    test.run("get db CH/Bern").assert_output(0, "46.95\n");
    view.end();
    assert!(files(&test.path("db")) == before, "a file has changed");
}

/// Waits until the view shows `key`, 20 seconds at most.
fn assert_shown(view: &View, key: &str) {
    let is_shown = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        view.get("/api/v1/keys").contains(key)
    });
    assert!(is_shown, "the view does not show {key}");
}

#[test]
fn other_programs_write_meanwhile() {
    let test = CliTest::with_entries("CH/Bern\t46.95\n");
    let view = View::start(&test, &[]);
    test.run("put db AT/Wien 48.2").assert_output(0, "");
    assert_shown(&view, "AT/Wien");
    test.run("compact db").assert_contains(0, &[]);
    test.run("put db FR/Lyon 45.7").assert_output(0, "");
    assert_shown(&view, "FR/Lyon");
    view.end();
}

#[test]
fn damaged_database() {
    let test = CliTest::with_entries("CH/Bern\t46.95\n");
    // The entries of a table, not of a log.
    test.run("compact db").assert_contains(0, &[]);
    let table = files(&test.path("db")).into_keys().find(|name| name.ends_with(".ldb")).unwrap();
    std::fs::remove_file(test.path("db").join(table)).unwrap();
    // No page shows a database without its tables as an empty one.
    test.run("view db --page-port 0").assert_contains(3, &["missing"]);
}

#[test]
fn follows_a_writer() {
    let test = CliTest::with_entries("CH/Bern\t46.95\n");
    let db = Db::open(test.path("db"), &Options::default()).unwrap();
    let view = View::start(&test, &[]);
    assert!(view.get("/api/v1/state").contains("\"follower\":true"));
    db.put("AT/Wien", "48.2").unwrap();
    assert_shown(&view, "AT/Wien");
    view.end();
    db.close().unwrap();
}

#[test]
fn directories_without_a_database() {
    let test = CliTest::new();
    test.run("view missing --page-port 0").assert_contains(3, &["missing"]);
    test.file("notes.txt", "mine").run("view . --page-port 0").assert_contains(3, &["without a database"]);
}
