//! `terrace shell` from a script, and writes with a condition.

use crate::cli_test::CliTest;

/// Runs `script`, and asserts the exit code, standard output and the message.
#[track_caller]
fn check(trial: &CliTest, script: &str, code: i32, out: &str, err: &str) {
    let ended = trial.run_with_input("shell db", script.as_bytes());
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (code, out, err));
}

#[test]
fn commands_without_a_transaction() {
    let trial = CliTest::with_entries("a\t1\nb\t2\nba\t3\n");
    let script = r#"# a comment, and an empty line

        get a
        put "two words" ""
        put tab \t\x00
        delete b
        get b
        scan
        scan t
        scan t 1
        check a 1
        check b
        quit
        nonsense"#;
    let out = "1\na\t1\nba\t3\ntab\t\\t\\x00\ntwo words\t\ntab\t\\t\\x00\ntwo words\t\ntab\t\\t\\x00\n";
    check(&trial, script, 0, out, "no key 'b'\n");
    trial.run("get db tab").assert_output(0, "\\t\\x00\n");
}

#[test]
fn transaction_takes_effect_at_its_commit() {
    let trial = CliTest::with_entries("a\t1\nb\t2\n");
    let script = "begin\nput a 9\ndelete b\nput c 3\nget a\nscan\ncommit\n";
    check(&trial, script, 0, "9\na\t9\nc\t3\n", "");
    trial.run("dump db").assert_output(0, "a\t9\nc\t3\n");
    check(&trial, "begin\nput a 7\nrollback\nget a\nbegin\nput a 8\ncommit\n", 0, "9\n", "");
    trial.run("get db a").assert_output(0, "8\n");
}

#[test]
fn savepoints() {
    let trial = CliTest::with_entries("a\t1\n");
    let script = "begin\nput a 2\nsavepoint one\nput a 3\nsavepoint one\nput a 4\nrollback one\nget a\n\
                  put b 1\nrollback one\nget b\ncommit\n";
    check(&trial, script, 0, "3\n", "no key 'b'\n");
    trial.run("dump db").assert_output(0, "a\t3\n");
    let script = "begin\nsavepoint one\ncommit\nbegin\nrollback one\n";
    check(&trial, script, 4, "", "terrace: standard input:5: no savepoint 'one'\n");
}

/// A batch with conditions: all of it, or nothing.
#[test]
fn failed_check_ends_the_script_and_undoes_the_transaction() {
    let trial = CliTest::with_entries("a\t1\n");
    for (check_line, reason) in [
        ("check a 2", "'a' has the value '1'"),
        ("check b 1", "'b' does not exist"),
        ("check a", "'a' has the value '1'"),
    ] {
        let script = format!("begin\nput a 5\nrollback\nbegin\n{check_line}\nput a 6\ncommit\n");
        check(&trial, &script, 5, "", &format!("terrace: standard input:5: condition not met: {reason}\n"));
        trial.run("dump db").assert_output(0, "a\t1\n");
    }
    check(&trial, "begin\ncheck a 1\ncheck b\nput b 2\ncommit\n", 0, "", "");
    trial.run("get db b").assert_output(0, "2\n");
}

#[test]
fn errors_name_their_line() {
    let trial = CliTest::with_entries("a\t1\n");
    for (line, reason) in [
        ("frobnicate", "no command 'frobnicate'; help lists all"),
        ("put a", "expected put KEY VALUE"),
        ("commit", "no transaction is open: begin starts one"),
        ("rollback", "no transaction is open: begin starts one"),
        ("savepoint x", "no transaction is open: begin starts one"),
        ("get \"a", "the quote at byte 4 has no end"),
        (r"get a\q", r"'a\\q': a backslash at byte 1 that is not one of \t \n \\ \xNN"),
        ("scan a b", "'b': expected a number of entries"),
    ] {
        let message = format!("terrace: standard input:2: {reason}\n");
        check(&trial, &format!("put a 2\n{line}\nput a 3\n"), 4, "", &message);
        trial.run("get db a").assert_output(0, "2\n");
    }
    let nested = "terrace: standard input:2: a transaction is open: commit it or roll it back first\n";
    check(&trial, "begin\nbegin\n", 4, "", nested);
    let open = "terrace: standard input:3: end of the script in a transaction, which is rolled back\n";
    check(&trial, "begin\nput a 9\n", 4, "", open);
    trial.run("get db a").assert_output(0, "2\n");
}

#[test]
fn hexadecimal_shell_and_new_database() {
    let trial = CliTest::new();
    trial.run("shell db").assert_contains(3, &["no such directory", "--create"]);
    let ended =
        trial.run_with_input("shell db --create --hex", b"put ff00 34\nget ff00\nscan ff\nput zz 1\n");
    assert_eq!((ended.code, ended.out.as_str()), (4, "34\nff00\t34\n"), "{}", ended.err);
    trial.run_with_input("shell db", b"help\n").assert_contains(0, &["put KEY VALUE", "rollback [NAME]"]);
}

#[test]
fn put_and_delete_with_a_condition() {
    let trial = CliTest::with_entries("a\t1\n");
    trial.run("put db b 1 --if-absent").assert_output(0, "");
    trial.run("put db b 2 --if-absent").assert_error(5, "condition not met: 'b' has the value '1'");
    trial.run("put db a 2 --if-value 1").assert_output(0, "");
    trial.run("put db a 3 --if-value 1 --sync").assert_error(5, "condition not met: 'a' has the value '2'");
    trial.run("put db c 3 --if-value 1").assert_error(5, "condition not met: 'c' does not exist");
    trial.run("delete db a --if-value 1").assert_error(5, "condition not met: 'a' has the value '2'");
    trial.run("delete db b --if-value 1").assert_output(0, "");
    trial.run("dump db").assert_output(0, "a\t2\n");
    trial.run("put db 61 33 --hex --if-value 32").assert_output(0, "");
    trial.run("get db a").assert_output(0, "3\n");
    trial.run("put db a 4 --if-absent --if-value 3").assert_contains(2, &["cannot be used with"]);
    trial.run("delete db --all --if-value 3").assert_contains(2, &["if-value"]);
}
