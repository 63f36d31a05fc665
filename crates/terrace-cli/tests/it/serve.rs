//! `terrace serve`: its messages, exit codes, and its end by a signal.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::cli_test::CliTest;

/// Starts a server on a free port. Returns the process and its first line.
fn start(test: &CliTest, args: &[&str]) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .current_dir(test.path(""))
        .args(["serve", "--port", "0"])
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

/// Sends inline commands and returns all replies. The last command is QUIT.
fn talk(line: &str, commands: &str) -> String {
    let address = line.trim_end().rsplit(' ').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(commands.as_bytes()).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    replies
}

fn terminate(child: &mut Child) -> Option<i32> {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    child.wait().unwrap().code()
}

#[test]
fn database_of_the_program() {
    let test = CliTest::with_entries("CH/Bern\t46.95\n");
    let (mut child, line) = start(&test, &["db"]);
    assert!(line.starts_with("ready: raw layout, listening on 127.0.0.1:"), "{line}");
    let replies = talk(&line, "GET CH/Bern\r\nSET CH/Chur 46.85\r\nQUIT\r\n");
    assert_eq!(replies, "$5\r\n46.95\r\n+OK\r\n+OK\r\n");
    test.run("get db CH/Chur").assert_contains(3, &["lock"]);
    assert_eq!(terminate(&mut child), Some(0));
    test.run("get db CH/Chur").assert_output(0, "46.85\n");
}

#[test]
fn new_directory() {
    let test = CliTest::new();
    let (mut child, line) = start(&test, &["new", "--requirepass", "secret"]);
    assert!(line.starts_with("ready: typed layout"), "{line}");
    let replies = talk(&line, "GET a\r\nAUTH secret\r\nSET a 1 EX 100\r\nQUIT\r\n");
    assert_eq!(replies, "-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(terminate(&mut child), Some(0));
    test.run("count new").assert_output(0, "4\n");
}

#[test]
fn options_that_contradict_each_other() {
    let test = CliTest::with_entries("a\tb\n");
    test.run("serve db --bind 0.0.0.0").assert_contains(2, &["--requirepass"]);
    test.run("serve db --no-tcp").assert_contains(2, &["--unix-socket"]);
    test.run("serve db --layout typed --port 0").assert_contains(3, &["raw layout"]);
    test.run("serve db --sync sometimes").assert_contains(2, &["sometimes"]);
    test.file("notes.txt", "mine").run("serve . --port 0").assert_contains(3, &["without a database"]);
    test.run("serve missing --read-only --port 0").assert_contains(3, &["missing"]);
    test.run("serve db --port 0 --unix-socket no/such/dir/socket")
        .assert_contains(4, &["no/such/dir/socket"]);
}
