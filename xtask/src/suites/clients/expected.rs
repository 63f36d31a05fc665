//! Cases that pass on redis-server and fail on Terrace, with rows of the table of differences.

/// Suite, part of the name of the case, and subject in `docs/guide/server.md`.
static EXPECTED: &[(&str, &str, &str)] = &[
    ("go-redis", "Commands Functions ", FUNCTIONS),
    ("redis-rs", "test_acl_cat", "COMMAND, COMMAND INFO, ACL CAT"),
    ("redis-rs", "test_acl_dryrun", USERS),
    ("redis-rs", "test_can_authenticate_with_username_and_password", USERS),
    ("redis-rs", "test_client_tracking_doesnt_block_execution", TRACKING),
    ("redis-rs", "test_push_manager", TRACKING),
    ("redis-rs", "test_resp3_pushes_connection_manager", TRACKING),
    ("redis-rs", "test_object_commands", "OBJECT ENCODING, REFCOUNT, IDLETIME, FREQ"),
    // These cases produce an error with SLAVEOF.
    ("redis-rs", "test_pipeline_transaction_with_errors", REPLICATION),
    ("redis-rs", "test_pipeline_with_err", REPLICATION),
    ("redis-py", "test_acl_", USERS),
    ("redis-py", "test_auth", USERS),
    ("redis-py", "test_credentials.", USERS),
    ("redis-py", "test_client_kill_filter_by_user", USERS),
    ("redis-py", "test_client_tracking", TRACKING),
    ("redis-py", "test_function.", FUNCTIONS),
    // It asks for the keys of MIGRATE.
    ("redis-py", "test_get_moveable_keys", REPLICATION),
    ("redis-py", "test_zrangestore", RANGE_BY_NAME),
    ("fakeredis", "test_zrangestore", RANGE_BY_NAME),
    ("fakeredis", "test_xtrim_approximate_node_size_follows_the_bytes", "XTRIM and XADD with `~`"),
    ("fakeredis", "test_xtrim_approximate_after_exact_trimming", "XINFO STREAM"),
];

const FUNCTIONS: &str = "FUNCTION, FCALL, SCRIPT DEBUG";
const RANGE_BY_NAME: &str = "ZRANGEBYLEX and the like with different scores";
const REPLICATION: &str = "MIGRATE, replication, cluster";
const TRACKING: &str = "CLIENT TRACKING";
const USERS: &str = "ACL SETUSER, DELUSER, LOAD, SAVE";

/// True if the difference `suite: case` is expected.
pub(super) fn is_expected(difference: &str) -> bool {
    let Some((suite, case)) = difference.split_once(": ") else { return false };
    EXPECTED.iter().any(|(name, part, _)| *name == suite && case.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::root;

    #[test]
    fn subjects_are_rows_of_the_table_of_differences() {
        let page = std::fs::read_to_string(root().join("docs/guide/server.md")).unwrap();
        let table = page.split_once("## Differences from Redis").unwrap().1;
        for (suite, case, subject) in EXPECTED {
            assert!(table.contains(&format!("\n| {subject} |")), "{suite} {case}: {subject}");
        }
    }

    #[test]
    fn only_the_cases_of_the_list_are_expected() {
        assert!(is_expected("redis-py: tests.test_function.TestFunction::test_fcall"));
        assert!(!is_expected("redis-py: tests.test_commands.TestRedisCommands::test_get"));
        assert!(!is_expected("rq: tests.test_function.TestFunction::test_fcall"));
    }
}
