//! Tests of stat, verify, repair, compact and destroy.

use crate::cli_test::{CliTest, missing_directory};

const FEW: &str = "a\t1\nb\t2\nc\t3\n";

#[test]
fn stat_draws_levels() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &["table", " -> "]);
    let stat = trial.run("stat db");
    stat.assert_contains(
        0,
        &[
            "db\n",
            "1 table, ",
            " of memory, ",
            "level  files",
            "##########",
            "a .. c",
            "leveldb.BytewiseComparator",
        ],
    );
    assert!(stat.out.is_ascii(), "drawing characters or colours in a pipe: {}", stat.out);
}

#[test]
fn stat_as_json() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &[]);
    let stat: serde_json::Value = serde_json::from_str(&trial.run("stat db --json").out).unwrap();
    assert_eq!((&stat["tables"], &stat["sequence"]), (&1.into(), &3.into()));
    assert!(stat["memory"].as_u64().unwrap() > 0, "{stat}");
    let levels = stat["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 7);
    let file = levels.iter().find_map(|level| level["files"].get(0)).unwrap();
    assert_eq!((&file["smallest"], &file["largest"]), (&"a".into(), &"c".into()));
}

#[test]
fn verify_intact_and_damaged() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &[]);
    trial.run("verify db").assert_contains(0, &[]);
    let table = trial.find_file(".ldb");
    let mut bytes = trial.read(&table);
    bytes[2] ^= 1;
    trial.file(&table, bytes);
    trial
        .run("verify db")
        .assert_contains(3, &["terrace: db: ", " problem", &table["db/".len()..], "checksum"]);
    trial.run("dump db").assert_contains(
        3,
        &["terrace: corruption: ", "checksum 0x", "; terrace verify lists all corruption, "],
    );
}

#[test]
fn repair_reports() {
    let trial = CliTest::with_entries(FEW);
    let before = trial.list("db");
    trial.run("repair db --dry-run").assert_contains(0, &[]);
    assert_eq!(trial.list("db"), before, "the dry run changed files");
    trial.run("repair db").assert_contains(0, &[]);
    trial.run("scan db").assert_output(0, FEW);
}

#[test]
fn compact_a_range() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db --from a --to b").assert_contains(0, &[" -> "]);
    trial.run("scan db").assert_output(0, FEW);
}

#[test]
fn checkpoint_is_a_database() {
    let trial = CliTest::with_entries(FEW);
    let before = trial.list("db");
    trial.run("checkpoint db copy").assert_output(0, "");
    assert_eq!(trial.list("db"), before, "the original changed");
    trial.run("delete db b").assert_output(0, "");
    trial.run("verify copy").assert_contains(0, &["no problem"]);
    trial.run("scan copy").assert_output(0, FEW);
    trial
        .run("checkpoint db copy")
        .assert_error(3, "invalid argument: copy: exists, expected the name of a new directory");
    trial.run("checkpoint db db/inside").assert_contains(3, &["db/inside: is inside of the database "]);
    trial
        .run("checkpoint db missing/copy")
        .assert_contains(3, &[&format!("io: mkdir missing/copy.partial: {}", missing_directory())]);
    trial.run("checkpoint missing copy").assert_contains(3, &["missing: no such directory"]);
}

#[test]
fn backups_from_create_to_prune() {
    let trial = CliTest::with_entries(FEW);
    trial.run("backup list backups").assert_error(3, "backups: no such directory, expected backups");
    trial.run("backup create backups db").assert_contains(0, &["backup 1: ", " new of "]);
    trial.run("compact db").assert_contains(0, &[]);
    trial.run("backup create backups db").assert_contains(0, &["backup 2: "]);
    trial.run("put db d 4").assert_output(0, "");
    trial.run("backup create backups db").assert_contains(0, &["backup 3: "]);
    trial.run("backup list backups").assert_contains(0, &["     1  20", "     3  20", "/db\n"]);
    let last = trial.run("backup list backups --json").out.lines().last().unwrap().to_owned();
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["id"], &last["sequence"]), (&3.into(), &4.into()));
    trial.run("restore backups old --id 1").assert_output(0, "");
    trial.run("scan old").assert_output(0, FEW);
    trial.run("restore backups new").assert_output(0, "");
    trial.run("get new d").assert_output(0, "4\n");
    trial.run("restore backups new").assert_contains(3, &["new: exists"]);
    trial.run("restore backups other --id 9").assert_contains(3, &["not found: backups: no backup 9"]);
    check_damaged_list(&trial);
    // No slip of a script removes all backups.
    trial.run("backup prune backups --keep 0").assert_contains(2, &["0 is not in 1.."]);
    trial.run("backup prune backups --keep 1").assert_output(0, "2 backups removed\n");
    trial.run("backup verify backups").assert_contains(0, &["backup 3: ", "no problem"]);

    let table = trial.list("backups/000003").into_iter().find(|name| name.ends_with(".ldb")).unwrap();
    let mut bytes = trial.read(&format!("backups/000003/{table}"));
    bytes[2] ^= 1;
    trial.file(&format!("backups/000003/{table}"), bytes);
    trial
        .run("backup verify backups --id 3")
        .assert_contains(3, &[&table, "content hash ", "1 backup damaged"]);
    trial.run("restore backups other").assert_contains(3, &["corruption: ", &table, "content hash "]);
    assert!(!trial.path("other").exists() && !trial.path("other.partial").exists());
}

/// Damages the list of backup 1 for a moment. The other backups are listed, verified and restored.
fn check_damaged_list(trial: &CliTest) {
    let list = trial.read("backups/000001.files");
    trial.file("backups/000001.files", &list[..list.len() - 1]);
    let message = "corruption: 000001.files: is no complete list of a backup";
    let listed = trial.run("backup list backups");
    listed.assert_contains(3, &["     2  20", "     3  20", message, "terrace backup verify"]);
    assert_eq!((listed.out.lines().count(), listed.err.lines().count()), (2, 1), "{listed:?}");
    trial.run("backup verify backups").assert_contains(
        3,
        &[message, "backup 1: damaged", "backup 3: ", "no problem", "backups: 1 backup damaged\n"],
    );
    trial.run("restore backups newest").assert_output(0, "");
    trial.run("restore backups other --id 1").assert_contains(3, &[message, "--id chooses another"]);
    trial.run("backup prune backups --keep 1").assert_contains(3, &[message]);
    trial.file("backups/000001.files", &list);
}

/// Regression: `backup list` removed the list of a backup whose directory was lost, and its tables.
#[test]
fn lost_directory_of_a_backup() {
    let trial = CliTest::with_entries(FEW);
    trial.run("compact db").assert_contains(0, &[]);
    trial.run("backup create backups db").assert_contains(0, &["backup 1: "]);
    trial.run("put db d 4").assert_output(0, "");
    trial.run("compact db").assert_contains(0, &[]);
    trial.run("backup create backups db").assert_contains(0, &["backup 2: "]);
    std::fs::remove_dir_all(trial.path("backups/000001")).unwrap();
    let tables = trial.list("backups/tables");
    let message = "corruption: 000001: is missing, but its list 000001.files exists";
    for _ in 0..2 {
        let listed = trial.run("backup list backups");
        listed.assert_contains(3, &["     2  20", message]);
        let verified = trial.run("backup verify backups");
        verified
            .assert_contains(3, &[message, "backup 1: damaged", "backup 2: ", "backups: 1 backup damaged\n"]);
        assert_eq!(trial.list("backups"), ["000001.files", "000002", "000002.files", "LOCK", "tables"]);
    }
    trial.run("restore backups old --id 1").assert_contains(3, &[message]);
    trial.run("restore backups new").assert_output(0, "");
    trial.run("backup create backups db").assert_contains(0, &["backup 3: "]);
    assert_eq!(trial.list("backups/tables"), tables, "a table of the damaged backup is gone");
    trial.run("backup prune backups --keep 2").assert_output(0, "1 backup removed\n");
    trial.run("backup list backups").assert_contains(0, &["     2  20", "     3  20"]);
    trial.run("backup verify backups").assert_contains(0, &["backup 2: ", "backup 3: "]);
}

/// Regression: the command created a lock and a directory of tables there.
#[test]
fn backups_in_a_directory_of_another_kind() {
    let trial = CliTest::new();
    trial.create_dir("other");
    let message = "invalid argument: other: no directory of backups (it has no subdirectory tables)";
    for line in ["backup list other", "backup verify other", "backup prune other --keep 1", "restore other x"]
    {
        trial.run(line).assert_error(3, message);
        assert!(trial.list("other").is_empty(), "{line}");
    }
}

/// Runs the commands of the guide.
#[test]
fn commands_of_the_backup_guide() {
    let trial = CliTest::new();
    trial.run_with_input("load cities - --create --format tsv", FEW.as_bytes()).assert_output(0, "");
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/backup.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, block) = guide.split_once("```sh\n").unwrap();
    let (commands, _) = block.split_once("```").unwrap();
    for line in commands.lines() {
        trial.run(line.strip_prefix("terrace ").unwrap()).assert_contains(0, &[]);
    }
    trial.run("scan cities-copy").assert_output(0, FEW);
    trial.run("scan cities-restored").assert_output(0, FEW);
}

#[test]
fn backup_checks_its_arguments() {
    let trial = CliTest::with_entries(FEW);
    trial.run("backup create backups").assert_contains(2, &["takes a DB"]);
    trial.run("backup list backups db").assert_contains(2, &["takes a DB"]);
    trial.run("backup prune backups").assert_contains(2, &["--keep"]);
    trial.run("backup rotate backups").assert_contains(2, &["rotate"]);
    trial.run("backup create db db").assert_contains(3, &["db: is a database, expected backups"]);
    trial.run("backup create db/backups db").assert_contains(3, &["is inside of the database"]);
    assert!(!trial.path("db/backups").exists());
    trial.run("migrate db local:db/copy").assert_contains(3, &["is inside of the database"]);
    assert!(!trial.path("db/copy").exists());
    trial.run("backup create db/../backups db").assert_contains(0, &["backup 1"]);
    trial.run("migrate db local:db/../copy").assert_contains(0, &[]);
}

#[test]
fn destroy_leaves_other_files() {
    let trial = CliTest::with_entries(FEW);
    trial.file("db/mine.txt", "");
    trial.run("destroy db --yes").assert_output(0, "");
    assert_eq!(trial.list("db"), ["mine.txt"]);
}
