//! `terrace serve`: its messages, exit codes, and its end by a signal.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests prepare files and wait for processes, and a failed step is a failed test"
)]

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
fn command_of_the_client() {
    for (args, expected) in [
        (&["--port", "0"][..], "connect: redis-cli -p "),
        (&["--port", "0", "--bind", "127.0.0.2"], "connect: redis-cli -h 127.0.0.2 -p "),
        (&["--no-tcp", "--unix-socket", "socket"], "connect: redis-cli -s socket"),
    ] {
        let test = CliTest::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
            .current_dir(test.path(""))
            .args(["serve", "new"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let ready = lines.next().unwrap();
        let hint = lines.next().unwrap();
        let last = |line: &str| line.rsplit([' ', ':']).next().unwrap().to_owned();
        assert!(hint.starts_with(expected) && last(&hint) == last(&ready), "{ready}\n{hint}");
        assert_eq!(terminate(&mut child), Some(0));
    }
}

/// Regression: nobody saw the port that the system had chosen.
#[test]
fn address_of_the_metrics() {
    let test = CliTest::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .current_dir(test.path(""))
        .args(["serve", "new", "--port", "0", "--no-page", "--metrics-port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.nth(2).unwrap();
    let address = line.strip_prefix("metrics: http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{line}"));
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("terrace_clients"), "{answer}");
    assert_eq!(terminate(&mut child), Some(0));
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

/// No source but the option shows the password in the list of processes.
#[test]
fn sources_of_the_password() {
    let test = CliTest::new();
    let replies = |args: &[&str], variable: &str| {
        let mut command = Command::new("env");
        command.arg(variable).arg(env!("CARGO_BIN_EXE_terrace")).args(["serve", "--port", "0", "new"]);
        let command = command.args(args).current_dir(test.path("")).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let output = child.wait_with_output().unwrap();
            return format!("{:?} {}", output.status.code(), String::from_utf8_lossy(&output.stderr));
        }
        let replies = talk(&line, "AUTH a b\r\nAUTH secret\r\nQUIT\r\n");
        assert_eq!(terminate(&mut child), Some(0));
        replies.lines().skip(1).map(|line| format!("{line};")).collect()
    };
    test.file("password", "secret\n").file("empty", "\r\n");
    assert_eq!(replies(&["--requirepass-file", "password"], "A="), "+OK;+OK;");
    assert_eq!(replies(&[], "TERRACE_PASSWORD=secret"), "+OK;+OK;");
    // An option overrides the environment.
    assert_eq!(replies(&["--requirepass-file", "password"], "TERRACE_PASSWORD=other"), "+OK;+OK;");
    assert!(replies(&[], "TERRACE_PASSWORD=other").starts_with("-WRONGPASS"));
    for (args, variable, expected) in [
        (&["--requirepass-file", "empty"][..], "A=", "Some(2) terrace: empty: the password is empty"),
        (&[], "TERRACE_PASSWORD=", "Some(2) terrace: TERRACE_PASSWORD: the password is empty"),
        (&["--requirepass-file", "missing"], "A=", "Some(4) terrace: "),
    ] {
        let found = replies(args, variable);
        assert!(found.starts_with(expected), "{found}");
    }
    test.run("serve new --requirepass a --requirepass-file password").assert_contains(2, &["cannot be used"]);
}

#[test]
fn options_that_contradict_each_other() {
    let test = CliTest::with_entries("a\tb\n");
    test.run("serve db --bind 0.0.0.0").assert_contains(2, &["--requirepass"]);
    test.run("serve db --no-tcp").assert_contains(2, &["Unix socket"]);
    test.run("serve db --layout typed --port 0").assert_contains(3, &["raw layout"]);
    test.run("serve db --sync sometimes").assert_contains(2, &["sometimes"]);
    test.file("notes.txt", "mine").run("serve . --port 0").assert_contains(3, &["without a database"]);
    test.run("serve missing --read-only --port 0").assert_contains(3, &["missing"]);
    test.run("serve db --port 0 --unix-socket no/such/dir/socket")
        .assert_contains(4, &["no/such/dir/socket"]);
    test.run("serve db --port 0 --checkpoints missing")
        .assert_error(4, "missing: no such directory, expected that of --checkpoints");
    test.run_in_shell("\"$0\" serve db --port 0 --requirepass ''")
        .assert_error(2, "--requirepass: the password is empty");
    test.run("serve db --port 0 --set maxclients=0").assert_error(
        2,
        "CONFIG SET failed (possibly related to argument 'maxclients') - \
         argument must be between 1 and 1000000 inclusive",
    );
    test.file("bytes", [0xff]).run("serve --config bytes").assert_error(4, "bytes: not UTF-8");
    test.file("db/CURRENT", "")
        .run("serve db --port 0")
        .assert_contains(3, &["corruption: ", "terrace repair"]);
}

/// Regression: the server removed the file, because a connection to it is refused as one to a
/// socket that no process uses.
#[test]
fn unix_socket_at_the_path_of_a_file() {
    let test = CliTest::new();
    test.file("notes.txt", "mine");
    test.run("serve new --port 0 --unix-socket notes.txt")
        .assert_error(4, "listen on notes.txt: the path exists and is no socket");
    assert_eq!(test.read("notes.txt"), b"mine");
    assert_eq!(test.list(""), ["notes.txt"]);
}

/// Text of `--print-config` after `args`.
fn printed(test: &CliTest, args: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .current_dir(test.path(""))
        .args(["serve", "--print-config"])
        .args(args.split_whitespace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn configuration_file() {
    let test = CliTest::new();
    test.file(
        "serve.toml",
        "db = \"new\"\nport = 0\nrequirepass = \"secret\"\nset = [\"slowlog-max-len=7\"]\n",
    );
    let (mut child, line) = start(&test, &["--config", "serve.toml", "--requirepass", "other"]);
    let replies = talk(&line, "AUTH secret\r\nAUTH other\r\nCONFIG GET slowlog-max-len\r\nQUIT\r\n");
    assert!(
        replies.starts_with("-WRONGPASS") && replies.contains("+OK\r\n") && replies.contains("$1\r\n7\r\n"),
        "{replies}"
    );
    assert_eq!(terminate(&mut child), Some(0));
}

#[test]
fn printed_configuration_is_a_file() {
    let test = CliTest::new();
    let first =
        printed(&test, "--port 7000 --bind ::1 --bind 127.0.0.1 --read-only --set hz=1 --timeout 5 here");
    for line in [
        "# TCP port; 0 for a free one",
        "port = 7000",
        "bind = [\"::1\", \"127.0.0.1\"]",
        "read-only = true",
        "no-tcp = false",
        "set = [\"hz=1\"]",
        "db = \"here\"",
        "# requirepass =",
    ] {
        assert!(first.lines().any(|found| found == line), "{line}\n{first}");
    }
    test.file("serve.toml", &first);
    assert_eq!(printed(&test, "--config serve.toml"), first);
}

#[test]
fn wrong_configurations() {
    let test = CliTest::new();
    for (text, code, expected) in [
        ("prot = 1\n", 2, "serve.toml: unknown key \"prot\""),
        ("port = 70000\n", 2, "70000"),
        ("workers = 17\n", 2, "1..=16"),
        ("max-clients = 0\n", 2, "1..=1000000"),
        ("timeout = 2147483648\n", 2, "0..=2147483647"),
        ("sync = \"sometimes\"\n", 2, "sometimes"),
        ("port = \n", 2, "terrace: serve.toml:2: "),
        ("set = [\n\"a\"\n", 2, "terrace: serve.toml:3: "),
        ("set = [\"slowlog-max-len=x\"]\n", 2, "slowlog-max-len"),
        ("set = [\"nosuch=1\"]\n", 2, "nosuch"),
        ("user = [\"bob role=root\"]\n", 2, "role \"root\""),
        ("[[user]]\nname = \"bob\"\nrole = \"read\"\nhash = \"x\"\n", 2, "user bob: hash"),
        ("tls-port = 1\n", 2, "--tls-cert"),
    ] {
        test.file("serve.toml", format!("db = \"new\"\n{text}"));
        let port = if text.contains("port") { "" } else { "--port 0" };
        let run = test.run(&format!("serve --config serve.toml {port}"));
        run.assert_contains(code, &[expected]);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    }
    test.run("serve --config missing.toml").assert_contains(4, &["missing.toml"]);
    test.run("serve --port 0").assert_contains(2, &["DB"]);
}

/// Regression: these options had no effect, and a wrong address had the exit code of a database
/// that cannot be opened.
#[test]
fn options_without_effect() {
    let test = CliTest::with_entries("a\t1\n");
    for (options, expected) in [
        ("db --read-only --page-writes", "'--read-only' cannot be used with '--page-writes'"),
        ("db --allow-flush --read-only", "cannot be used with"),
        ("db --create", "cannot be used with '--create'"),
        ("--store cities", "'cities' is no address"),
        ("--store redis://host/app", "'redis' is no engine"),
        ("--store etcd://", "'' is no host"),
    ] {
        test.run(&format!("serve --port 0 {options}")).assert_contains(2, &[expected]);
    }
    test.run("serve --port 0 --store local:missing").assert_contains(3, &["missing: does not exist"]);
}

#[test]
fn hash_of_a_password() {
    let test = CliTest::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["serve", "--hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    let hash = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
    let user = format!("bob role=read prefix=a: hash={}", hash.trim_end());
    let (mut child, line) = start(&test, &["new", "--user", &user]);
    let replies = talk(&line, "AUTH bob secret\r\nGET a:1\r\nGET b\r\nQUIT\r\n");
    assert!(replies.starts_with("+OK\r\n$-1\r\n-NOPERM "), "{replies}");
    assert_eq!(terminate(&mut child), Some(0));
}

/// Regression: a longer password was cut, so its hash was that of other passwords, too. An error of
/// the standard input had the name of the standard output.
#[test]
fn passwords_without_a_hash() {
    let test = CliTest::new();
    let longest = "x".repeat(4096);
    let hashed = test.run_with_input("serve --hash-password", format!("{longest}\r\n").as_bytes());
    hashed.assert_contains(0, &["$argon2id$"]);
    for (password, reason) in [
        (format!("{longest}x"), "has more than 4,096 bytes"),
        (longest.repeat(3), "has more than 4,096 bytes"),
        ("\n".to_owned(), "is empty"),
    ] {
        test.run_with_input("serve --hash-password", password.as_bytes())
            .assert_error(2, &format!("the password on the standard input {reason}"));
    }
    test.run_in_shell("\"$0\" serve --hash-password <.")
        .assert_error(4, "standard input: Is a directory (os error 21)");
}

/// Regression: both ended with success and without output.
#[cfg(target_os = "linux")]
#[test]
fn output_on_a_full_disk() {
    let test = CliTest::new();
    for line in ["echo secret | \"$0\" serve --hash-password", "\"$0\" serve --print-config"] {
        test.run_in_shell(&format!("{line} >/dev/full"))
            .assert_error(4, "standard output: No space left on device (os error 28)");
    }
}

#[test]
fn port_in_use() {
    let test = CliTest::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for option in ["--port", "--metrics-port"] {
        let other = if option == "--port" { "" } else { "--port 0" };
        test.run(&format!("serve new {option} {port} {other}"))
            .assert_contains(4, &[&format!("listen on 127.0.0.1:{port}"), "in use"]);
    }
}

#[test]
fn socket_path_that_is_too_long() {
    let test = CliTest::new();
    test.run(&format!("serve new --port 0 --unix-socket {}", "x".repeat(200)))
        .assert_contains(4, &["listen on xxx", "SUN_LEN"]);
}

#[test]
fn directory_that_another_process_has_open() {
    let test = CliTest::new();
    let (mut child, _line) = start(&test, &["new"]);
    test.run("serve new --port 0").assert_contains(3, &["open in another process", &child.id().to_string()]);
    assert_eq!(terminate(&mut child), Some(0));
}

#[test]
fn directory_without_permission() {
    let test = CliTest::with_entries("a\tb\n");
    let check = |mode, expected: &str| {
        test.set_mode("db", mode);
        let output = test.run_as_nobody("serve db --port 0");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_one_line = text.lines().count() == 1 && text.starts_with("terrace: ");
        assert!(
            output.status.code() == Some(3) && is_one_line && text.contains(expected),
            "{mode:o}: {text}"
        );
    };
    check(0o000, "ermission denied");
    check(0o555, "ermission denied");
    test.set_mode("db", 0o755);
}

/// Runs the program on a small file system of its own, which `prepare` changes first.
fn run_on_small_disk(test: &CliTest, prepare: &str) -> Option<std::process::Output> {
    let dir = test.path("disk");
    std::fs::create_dir(&dir).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs {0} && cd {0} && {prepare} && exec timeout 20 {1} serve {0}/db --port 0",
        dir.display(),
        env!("CARGO_BIN_EXE_terrace")
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_possible = !text.contains("unshare:") && !text.contains("mount:");
    if !is_possible {
        let _ = writeln!(std::io::stderr(), "NOT TESTED: a small file system needs root: {text}");
    }
    is_possible.then_some(output)
}

#[test]
fn full_and_read_only_disks() {
    for (prepare, expected) in [
        ("head -c 70000 /dev/zero > fill 2>/dev/null; true", "o space left on device"),
        ("mkdir db && mount -o remount,ro .", "ead-only file system"),
    ] {
        let test = CliTest::new();
        let Some(output) = run_on_small_disk(&test, prepare) else { return };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_one_line = text.lines().count() == 1 && text.starts_with("terrace: ");
        assert!(
            output.status.code() == Some(3) && is_one_line && text.contains(expected),
            "{prepare}: {text}"
        );
    }
}

#[test]
fn certificates_that_do_not_match() {
    let test = CliTest::new();
    for name in ["one", "two"] {
        let made = Command::new("openssl")
            .current_dir(test.path(""))
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .args(["-subj", "/CN=localhost", "-days", "2", "-keyout", &format!("{name}.key")])
            .args(["-out", &format!("{name}.pem")])
            .output();
        let Ok(made) = made else {
            let _ = writeln!(std::io::stderr(), "NOT TESTED: openssl is not installed");
            return;
        };
        assert!(made.status.success());
    }
    test.run("serve new --port 0 --tls-port 0 --tls-cert one.pem --tls-key two.key")
        .assert_contains(4, &["one.pem: the certificate does not match the key two.key"]);
    let (mut child, line) =
        start(&test, &["new", "--tls-port", "0", "--tls-cert", "one.pem", "--tls-key", "one.key"]);
    assert!(line.contains(", tls 127.0.0.1:"), "{line}");
    // A reload with a wrong key keeps the old certificate, and the server runs on.
    let pid = child.id().to_string();
    std::fs::copy(test.path("two.key"), test.path("one.key")).unwrap();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None);
    let tls = line.trim_end().rsplit("tls ").next().unwrap().split(',').next().unwrap().to_owned();
    let fingerprint = |script: &str| {
        let script = format!("{script} | openssl x509 -noout -fingerprint 2>/dev/null");
        Command::new("sh").current_dir(test.path("")).args(["-c", &script]).output().unwrap().stdout
    };
    let served = || fingerprint(&format!("openssl s_client -connect {tls} </dev/null 2>/dev/null"));
    let first = fingerprint("cat one.pem");
    assert_eq!(served(), first);
    std::fs::copy(test.path("two.pem"), test.path("one.pem")).unwrap();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let second = fingerprint("cat two.pem");
    assert_ne!(second, first);
    let is_reloaded = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        served() == second
    });
    assert!(is_reloaded);
    assert_eq!(terminate(&mut child), Some(0));
}

#[test]
fn messages_to_systemd() {
    use std::os::unix::net::UnixDatagram;
    let test = CliTest::new();
    let path = test.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .current_dir(test.path(""))
        .args(["serve", "--port", "0", "new"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let message = || {
        let mut buffer = [0; 64];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(message(), "READY=1");
    assert_eq!(message(), "WATCHDOG=1");
    assert_eq!(message(), "WATCHDOG=1");
    assert_eq!(terminate(&mut child), Some(0));
    assert!((0..20).any(|_| message() == "STOPPING=1"));
}

#[test]
fn socket_from_systemd() {
    /// Opens a socket like systemd, and becomes the server.
    const SCRIPT: &str = "import os, socket, sys\n\
        s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
        os.set_inheritable(s.fileno(), True); s.fileno() == 3 or os.dup2(s.fileno(), 3)\n\
        os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n\
        print(s.getsockname()[1], flush=True)\n\
        os.execv(sys.argv[1], sys.argv[1:])\n";
    let test = CliTest::new();
    let started = Command::new("python3")
        .current_dir(test.path(""))
        .args(["-c", SCRIPT, env!("CARGO_BIN_EXE_terrace"), "serve", "new", "--port", "1"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        let _ = writeln!(std::io::stderr(), "NOT TESTED: python3 is not installed");
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap();
    let line = lines.next().unwrap().unwrap();
    assert!(line.ends_with(&format!("listening on 127.0.0.1:{port}")), "{line}");
    assert_eq!(talk(&line, "PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    assert_eq!(terminate(&mut child), Some(0));
}
