//! Other processes that use a database: this test binary, started again for one task.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use terrace::{Db, Env, RepairOptions};
use terrace_testkit::emulator;
use terrace_testkit::settings::Settings;

use terrace_torture::database_under_test::options_from_settings;

const TASK: &str = "TERRACE_TEST_TASK";
const DATABASE: &str = "TERRACE_TEST_DATABASE";

/// Runs `task` on the database at `path` in another process. Returns `ok` or the error.
pub(crate) fn run_in_other_process(task: &str, path: &Path) -> String {
    run(emulator::command(std::env::current_exe().unwrap()), task, path)
}

/// Runs `task` like [`run_in_other_process`], by a program that executes its last arguments.
#[cfg(unix)]
pub(crate) fn run_by(program: Command, task: &str, path: &Path) -> String {
    run_copy_by(program, &std::env::current_exe().unwrap(), task, path)
}

/// Runs `task` like [`run_by`], in `copy` of this test binary.
#[cfg(unix)]
pub(crate) fn run_copy_by(mut program: Command, copy: &Path, task: &str, path: &Path) -> String {
    program.args(emulator::words()).arg(copy);
    run(program, task, path)
}

/// Starts `task` on the database at `path` in another process, whose answer is lost.
pub(crate) fn start_other_process(task: &str, path: &Path) -> Child {
    let mut test_binary = emulator::command(std::env::current_exe().unwrap());
    test_binary.stdout(Stdio::null()).stderr(Stdio::null());
    prepare(&mut test_binary, task, path).spawn().unwrap()
}

fn prepare<'a>(test_binary: &'a mut Command, task: &str, path: &Path) -> &'a mut Command {
    test_binary.args(["--exact", "process::task", "--nocapture"]).env(TASK, task).env(DATABASE, path)
}

fn run(mut test_binary: Command, task: &str, path: &Path) -> String {
    let output = prepare(&mut test_binary, task, path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(answer)
        .unwrap_or_else(|| panic!("{task}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn answer(line: &str) -> Option<String> {
    Some(line.split_once("answer: ")?.1.to_owned())
}

/// Not a test: the task of the other process. Does nothing without a task.
#[test]
fn task() {
    let (Ok(task), Some(path)) = (std::env::var(TASK), std::env::var_os(DATABASE)) else { return };
    let options = options_from_settings(&Settings::default(), &Env::system());
    let done = match task.as_str() {
        "open" => Db::open(path, &options).map(drop),
        "repair" => terrace::repair(path, &options, &RepairOptions::default()).map(drop),
        "fill many databases" => crate::shared_budget::fill_many_databases(Path::new(&path)),
        #[cfg(target_os = "linux")]
        "sync without descriptors" => crate::descriptors::check_sync_without_descriptors(Path::new(&path)),
        "follow" => crate::followers::check_follower(Path::new(&path)),
        "put without memory" => crate::transactions::check_put_without_memory(Path::new(&path)),
        "write large batches" => crate::leveldb_interop::write_large_batches(Path::new(&path)),
        "read in a transaction without memory" => crate::transactions::read_without_memory(Path::new(&path)),
        "destroy" => terrace::destroy(path, &options),
        other => panic!("unknown task {other}"),
    };
    println!("\nanswer: {}", done.map_or_else(|error| error.to_string(), |()| "ok".to_owned()));
}
