//! The process that forks, and its children.
#![allow(unsafe_code)] // Forks, which no safe function does.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace::{Db, ErrorKind, MappedLogs, Options, WriteOptions};
use terrace_testkit::rng::Rng;

/// Output of a process without a failure.
pub(super) const SUCCESS: &str = "ok";

/// Beginning of the output of a process that cannot refuse itself the locks.
pub(super) const NOT_TESTED: &str = "NOT TESTED: ";

/// Seconds after which a child counts as hanging.
const CHILD_TIMEOUT_S: u32 = 30;

/// Seconds after which the process that forks counts as hanging: its fork may wait for its threads,
/// or they for the fork.
const PROCESS_TIMEOUT_S: u32 = 300;

/// Number of writer threads.
const WRITERS: u64 = 4;
/// Number of reader threads.
const READERS: u64 = 2;

/// Number of keys that never change after the start.
const STABLE_KEYS: u64 = 2000;

/// One child of this number writes to the database of its parent, which must fail. The child first
/// waits for a parent that might exit.
const CHILDREN_PER_REFUSED_WRITE: u64 = 10;

/// Maximum pause between two forks, in microseconds.
const MAX_PAUSE_US: u64 = 3000;

/// Work of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ForkMode {
    /// The parent forks children and waits for them.
    Children { forks: u32 },
    /// The parent forks once and exits.
    Daemon { without_ofd_locks: bool },
}

impl ForkMode {
    pub(super) fn to_arguments(self) -> Vec<String> {
        match self {
            ForkMode::Children { forks } => vec!["--forks".into(), forks.to_string()],
            ForkMode::Daemon { without_ofd_locks: true } => vec!["--without-ofd-locks".into()],
            ForkMode::Daemon { without_ofd_locks: false } => Vec::new(),
        }
    }
}

/// Arguments of a forking process.
#[derive(Debug, clap::Args)]
pub(crate) struct ForkerArgs {
    directory: PathBuf,
    seed: u64,
    /// Number of children. Without it, the process forks as a daemon.
    #[arg(long)]
    forks: Option<u32>,
    /// Refuses locks of open file descriptions.
    #[arg(long)]
    without_ofd_locks: bool,
}

/// Runs a forking process. Prints [`SUCCESS`] or the failure.
pub(crate) fn run_forker(arguments: &ForkerArgs) -> ExitCode {
    kill_after(PROCESS_TIMEOUT_S);
    if arguments.without_ofd_locks
        && let Err(error) = refuse_ofd_locks()
    {
        println!("{NOT_TESTED}a fork without locks of open file descriptions: {error}");
        return ExitCode::SUCCESS;
    }
    let outcome = match arguments.forks {
        Some(forks) => fork_children(arguments, forks),
        None => fork_daemon(arguments),
    };
    println!("{}", outcome.err().unwrap_or_else(|| SUCCESS.into()));
    ExitCode::SUCCESS
}

/// Makes the system refuse locks of open file descriptions, to this process and its children.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn refuse_ofd_locks() -> std::io::Result<()> {
    use crate::harness::refusals::seccomp::{ArgumentMatch, RefusedCall, refuse};
    let argument = Some(ArgumentMatch { index: 1, mask: u32::MAX, value: libc::F_OFD_SETLK as u32 });
    refuse(&[RefusedCall { number: libc::SYS_fcntl, argument }], libc::EINVAL)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn refuse_ofd_locks() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Returns options with small memtables and few open tables, so that background jobs and evictions
/// always run. The seed chooses the method of the logs and the codec. Its last bit chooses the
/// locks.
fn options(seed: u64) -> Options {
    let methods = [MappedLogs::Auto, MappedLogs::Always, MappedLogs::Never];
    let mapped_logs = methods[(seed / 2 % methods.len() as u64) as usize];
    let options = Options::default().create_if_missing(true).mapped_logs(mapped_logs);
    let options = options.write_buffer_size(64 << 10).max_open_files(20);
    // Reads search the blocks of uncompressed tables in the mappings.
    if has_uncompressed_tables(seed) {
        options.compression(&terrace::compress::NO_COMPRESSION)
    } else {
        options
    }
}

fn has_uncompressed_tables(seed: u64) -> bool {
    seed / 6 % 2 == 1
}

fn stable_key(n: u64) -> Vec<u8> {
    format!("stable {n:05}").into_bytes()
}

fn value_of(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(20)
}

fn describe(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn open_filled(arguments: &ForkerArgs) -> Result<Db, String> {
    let db = Db::open(arguments.directory.join("db"), &options(arguments.seed)).map_err(describe)?;
    for n in 0..STABLE_KEYS {
        db.put(stable_key(n), value_of(n)).map_err(describe)?;
    }
    Ok(db)
}

/// Starts threads that write and read until the process ends. Each writer records the number of its
/// acknowledged writes.
fn start_threads(db: &Db, seed: u64) -> Arc<[AtomicU64]> {
    let acknowledged: Arc<[AtomicU64]> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    for writer in 0..WRITERS {
        let db = db.clone();
        let acknowledged = Arc::clone(&acknowledged);
        std::thread::spawn(move || write_in_loop(&db, writer, seed, &acknowledged[writer as usize]));
    }
    for reader in 0..READERS {
        let db = db.clone();
        std::thread::spawn(move || {
            let mut rng = Rng::new(seed ^ 100 ^ reader);
            while check_stable_keys(&db, &mut rng, true).is_ok() {}
        });
    }
    acknowledged
}

fn writer_key(writer: u64, number: u64) -> Vec<u8> {
    format!("writer {writer} {:05}", number % 5000).into_bytes()
}

fn write_in_loop(db: &Db, writer: u64, seed: u64, acknowledged: &AtomicU64) {
    let mut rng = Rng::new(seed ^ writer);
    for number in 1.. {
        let sync = WriteOptions::default().sync(rng.one_in(500));
        if let Err(error) = db.put_with(writer_key(writer, number), value_of(number), &sync) {
            println!("writer {writer}: {error}");
            std::process::exit(1);
        }
        acknowledged.store(number, Ordering::SeqCst);
    }
}

/// Reads some stable keys, by gets and by an iterator. A child may miss a table that its parent has
/// removed since the fork.
fn check_stable_keys(db: &Db, rng: &mut Rng, is_owner: bool) -> Result<(), String> {
    let may_fail = |error: &terrace::Error| !is_owner && error.kind() == ErrorKind::Io;
    for _ in 0..20 {
        let n = rng.below(STABLE_KEYS);
        match db.get(stable_key(n)) {
            Ok(Some(value)) if value == value_of(n) => {}
            Err(error) if may_fail(&error) => {}
            other => return Err(format!("stable key {n}: {other:?}")),
        }
    }
    let mut cursor = db.raw_iter();
    cursor.seek(&stable_key(rng.below(STABLE_KEYS)));
    for _ in 0..50 {
        if cursor.valid() {
            cursor.next();
        }
    }
    match cursor.status() {
        Err(error) if !may_fail(&error) => Err(format!("iterator: {error}")),
        _ => Ok(()),
    }
}

/// Forks. Returns the id of the child to the parent, and 0 to the child.
fn fork() -> Result<i32, String> {
    // SAFETY: the child runs code that needs no other thread of its parent, and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child < 0 { Err(format!("fork: {}", std::io::Error::last_os_error())) } else { Ok(child) }
}

/// Ends this process without destructors.
fn exit_at_once(status: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(status) }
}

/// Lets the system kill this process after `seconds`. A forked child does not inherit this.
fn kill_after(seconds: u32) {
    // SAFETY: `alarm` has no precondition. Its signal ends the process.
    unsafe { libc::alarm(seconds) };
}

/// Waits for `child`, which should end within [`CHILD_TIMEOUT_S`]. Of a child that hangs, it
/// describes the threads and kills it.
fn wait_or_describe_hang(child: i32) -> Result<i32, String> {
    let started = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` lives until the call returns, and `waitpid` writes only an integer to
        // it.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if started.elapsed() < Duration::from_secs(CHILD_TIMEOUT_S.into()) => {
                std::thread::sleep(Duration::from_micros(300));
            }
            0 => {
                let threads = describe_threads(child);
                // SAFETY: `kill` has no precondition. The child is not waited for yet, so that no
                // other process has its id.
                unsafe { libc::kill(child, libc::SIGKILL) };
                wait_for(child)?;
                return Err(format!("hangs; its threads:\n{threads}"));
            }
            waited if waited == child => return Ok(status),
            _ => return Err(format!("waitpid: {}", std::io::Error::last_os_error())),
        }
    }
}

/// Returns the state of each thread of `process`, and its stack if there is a debugger.
fn describe_threads(process: i32) -> String {
    let mut text = String::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        for file in ["stat", "wchan", "syscall"] {
            let content =
                std::fs::read_to_string(task.path().join(file)).unwrap_or_else(|error| error.to_string());
            text += &format!("{file}: {}\n", content.trim_end());
        }
    }
    let mut debugger = Command::new("gdb");
    debugger.args(["-p", &process.to_string(), "-batch", "-ex", "thread apply all bt 40"]);
    match debugger.stdin(Stdio::null()).output() {
        Ok(output) => text + &String::from_utf8_lossy(&output.stdout),
        Err(error) => text + &format!("gdb: {error}"),
    }
}

fn fork_children(arguments: &ForkerArgs, forks: u32) -> Result<(), String> {
    let db = open_filled(arguments)?;
    start_threads(&db, arguments.seed);
    let mut rng = Rng::new(arguments.seed);
    let iterator_from_before = db.raw_iter();
    for number in 0..forks {
        std::thread::sleep(Duration::from_micros(rng.below(MAX_PAUSE_US)));
        let child_seed = rng.next_u64();
        let child = fork()?;
        if child == 0 {
            let outcome = run_child(&db, &arguments.directory, child_seed);
            drop(iterator_from_before);
            if let Err(error) = &outcome {
                println!("child {number}: {error}");
            }
            drop(db);
            exit_at_once(i32::from(outcome.is_err()));
        }
        let status = wait_or_describe_hang(child).map_err(|error| format!("child {number} {error}"))?;
        if status != 0 {
            return Err(format!("child {number} ended with status {status}"));
        }
    }
    Ok(())
}

fn wait_for(child: i32) -> Result<i32, String> {
    let mut status = 0;
    // SAFETY: `status` lives until the call returns, and `waitpid` writes only an integer to it.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    if waited == child { Ok(status) } else { Err(format!("waitpid: {}", std::io::Error::last_os_error())) }
}

fn run_child(db: &Db, directory: &Path, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    check_stable_keys(db, &mut rng, false)?;
    let snapshot = db.snapshot();
    db.property("leveldb.stats").ok_or("the child has no property leveldb.stats")?;
    if rng.one_in(CHILDREN_PER_REFUSED_WRITE) {
        match db.put("child", "") {
            Err(error) if error.kind() == ErrorKind::NotSupported => {}
            other => return Err(format!("a write beside the parent returned {other:?}")),
        }
    }
    drop(snapshot);
    check_own_database(directory, rng.next_u64())?;
    check_stable_keys(db, &mut rng, false)
}

/// Opens a new database, writes enough for several flushes, and checks the entries.
fn check_own_database(directory: &Path, seed: u64) -> Result<(), String> {
    let path = directory.join(format!("child {seed}"));
    let db = Db::open(&path, &options(seed)).map_err(describe)?;
    for n in 0..1500 {
        db.put(stable_key(n), value_of(n)).map_err(describe)?;
    }
    db.flush().map_err(describe)?;
    for n in 0..1500 {
        let value = db.get(stable_key(n)).map_err(describe)?;
        if value != Some(value_of(n)) {
            return Err(format!("key {n} of the child's database: {value:?}"));
        }
    }
    db.close().map_err(describe)?;
    std::fs::remove_dir_all(&path).map_err(describe)
}

/// Forks while the writers run, once or twice, and exits. The child adopts the database.
fn fork_daemon(arguments: &ForkerArgs) -> Result<(), String> {
    // The writers of the parent continue after the fork, so the ledger is in shared memory.
    let mut rng = Rng::new(arguments.seed);
    let ledger = arguments.directory.join("ledger");
    let ledger_file = File::options().create(true).truncate(true).read(true).write(true).open(&ledger);
    let ledger_file = ledger_file.map_err(describe)?;
    let db = open_filled(arguments)?;
    let before = db.snapshot();
    let shared = open_shared(&arguments.directory)?;
    let acknowledged = start_threads(&db, arguments.seed);
    start_ledger_thread(ledger_file, acknowledged);
    std::thread::sleep(Duration::from_micros(rng.below(20 * MAX_PAUSE_US)));
    for _ in 0..1 + rng.below(2) {
        if fork()? != 0 {
            // Other threads write until this call.
            exit_at_once(0);
        }
    }
    kill_after(CHILD_TIMEOUT_S);
    if rng.one_in(2) {
        std::env::set_current_dir("/").map_err(describe)?;
    }
    run_daemon_child(&db, &arguments.directory, &mut rng)?;
    check_is_locked(&arguments.directory.join("db"))?;
    check_shared_lock(shared, &arguments.directory)?;
    let old = db.get_with(stable_key(1), &terrace::ReadOptions::default().snapshot(before));
    match old {
        Ok(Some(value)) if value == value_of(1) => {}
        Err(error) if error.kind() == ErrorKind::Io => {}
        other => return Err(format!("the snapshot from before the fork returned {other:?}")),
    }
    // The writers of the parent own clones of the handle, which no thread of this process drops.
    db.shutdown().map_err(describe)?;
    let db = Db::open(arguments.directory.join("db"), &options(rng.next_u64())).map_err(describe)?;
    check_daemon_entries(&db, &arguments.directory)
}

/// Opens a second database for reads only. No other thread has its handle.
fn open_shared(directory: &Path) -> Result<Db, String> {
    let path = directory.join("shared");
    Db::open(&path, &options(0)).and_then(Db::close).map_err(describe)?;
    Db::open_read_only(&path, &options(0)).map_err(describe)
}

/// Opens the read-only database of the parent again, and closes the inherited handle. This must not
/// release the lock of the new one.
fn check_shared_lock(inherited: Db, directory: &Path) -> Result<(), String> {
    let path = directory.join("shared");
    let own = Db::open_read_only(&path, &options(0)).map_err(describe)?;
    drop(inherited);
    check_is_locked(&path)?;
    own.close().map_err(describe)
}

/// Checks in another process that the database in `directory` has a record lock, on which C++
/// LevelDB relies.
fn check_is_locked(directory: &Path) -> Result<(), String> {
    let prober = fork()?;
    if prober == 0 {
        exit_at_once(match File::open(directory.join("LOCK")).and_then(|file| is_record_locked(&file)) {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(_) => 2,
        });
    }
    match wait_for(prober)? {
        0 => Ok(()),
        status => Err(format!("{} is not locked: status {status}", directory.display())),
    }
}

/// Returns true if another process has a record lock that conflicts with an exclusive one.
fn is_record_locked(file: &File) -> std::io::Result<bool> {
    // SAFETY: `flock` is a C struct of integers, and zero is a valid value of every integer.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: `file` keeps the descriptor open during the call. `fcntl` reads and writes `request`,
    // which lives until the call returns.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut request) } {
        0 => Ok(request.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Copies the counts of acknowledged writes to the ledger until the process ends.
fn start_ledger_thread(file: File, acknowledged: Arc<[AtomicU64]>) {
    use std::os::unix::fs::FileExt;
    std::thread::spawn(move || {
        loop {
            for (writer, number) in acknowledged.iter().enumerate() {
                let number = number.load(Ordering::SeqCst).to_le_bytes();
                // A failed write leaves an older number, which is correct, too.
                let _ = file.write_all_at(&number, writer as u64 * 8);
            }
        }
    });
}

fn run_daemon_child(db: &Db, directory: &Path, rng: &mut Rng) -> Result<(), String> {
    if rng.one_in(2) {
        // A read before the first write sees the state at the fork, or adopts the database.
        check_stable_keys(db, rng, false)?;
    }
    for n in 0..1000 {
        db.put(format!("daemon {n:05}"), value_of(n)).map_err(|error| format!("put {n}: {error}"))?;
    }
    check_stable_keys(db, rng, true)?;
    check_daemon_entries(db, directory)?;
    db.flush().map_err(describe)
}

/// Checks the entries of the daemon, and those that the writers of its parent acknowledged.
fn check_daemon_entries(db: &Db, directory: &Path) -> Result<(), String> {
    for n in 0..1000 {
        let value = db.get(format!("daemon {n:05}")).map_err(describe)?;
        if value != Some(value_of(n)) {
            return Err(format!("entry {n} of the daemon: {value:?}"));
        }
    }
    let ledger = std::fs::read(directory.join("ledger")).map_err(describe)?;
    for (writer, number) in ledger.as_chunks::<8>().0.iter().enumerate() {
        check_acknowledged(db, writer as u64, u64::from_le_bytes(*number))?;
    }
    Ok(())
}

/// Checks that write `number` of a writer is present, unless a later write has the same key.
fn check_acknowledged(db: &Db, writer: u64, number: u64) -> Result<(), String> {
    if number == 0 {
        return Ok(());
    }
    let value = db.get(writer_key(writer, number)).map_err(describe)?.unwrap_or_default();
    let found = value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if found < number {
        return Err(format!("writer {writer}: write {number} was acknowledged, found {found}"));
    }
    Ok(())
}
