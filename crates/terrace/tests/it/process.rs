//! Another process that has to do with a database: this same test binary, started again for one task.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use terrace::{Db, Env, RepairOptions};
use terrace_testkit::settings::Settings;

use terrace_torture::subject::options;

const TASK: &str = "TERRACE_TEST_TASK";
const DATABASE: &str = "TERRACE_TEST_DATABASE";

fn command(task: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::task", "--nocapture"]).env(TASK, task).env(DATABASE, path);
    command
}

/// Does `task` with the database at `path` in another process, and says how it went: `ok`, or the error.
pub(crate) fn elsewhere(task: &str, path: &Path) -> String {
    let output = command(task, path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(answer)
        .unwrap_or_else(|| panic!("{task}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Does `task` in another process, and kills that once it answered `ok`, with its database open.
pub(crate) fn killed_after(task: &str, path: &Path) {
    let mut child = command(task, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answered = lines.find_map(|line| answer(&line));
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(answered.as_deref(), Some("ok"), "{task}: {}", String::from_utf8_lossy(&output.stderr));
}

fn answer(line: &str) -> Option<String> {
    Some(line.split_once("answer: ")?.1.to_owned())
}

/// Not a test: what the other process does. Without a task it does nothing.
#[test]
fn task() {
    let (Ok(task), Some(path)) = (std::env::var(TASK), std::env::var_os(DATABASE)) else { return };
    let options = options(&Settings::default(), &Env::system());
    let done = match task.split_once(' ').unwrap_or((&task, "")) {
        ("open", _) => Db::open(path, &options).map(drop),
        ("repair", _) => terrace::repair(path, &options, &RepairOptions::default()).map(drop),
        ("destroy", _) => terrace::destroy(path, &options),
        ("life", of) => {
            let _open = crate::stock::life(of, path.as_ref());
            println!("\nanswer: ok");
            return wait_for_the_end();
        }
        other => panic!("unknown task {other:?}"),
    };
    println!("\nanswer: {}", done.map_or_else(|error| error.to_string(), |()| "ok".to_owned()));
}

/// Sleeps until this process is killed, or who started it is gone.
fn wait_for_the_end() {
    let _ = std::io::stdin().read(&mut [0]);
}
