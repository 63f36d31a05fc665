//! Versions, from the lock files, of engines that do not report their own.

#[cfg(any(feature = "fjall", feature = "redb"))]
const CARGO_LOCK: &str = include_str!(env!("TERRACE_CARGO_LOCK"));
const GO_MOD: &str = include_str!("../../go/go.mod");

/// Version of a crate, or empty.
#[cfg(any(feature = "fjall", feature = "redb"))]
pub(super) fn crate_version(name: &str) -> String {
    let header = format!("\nname = \"{name}\"\nversion = \"");
    let after = CARGO_LOCK.split_once(&header).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or_default().to_owned()
}

/// Version of a Go module, or empty.
pub(super) fn go_module_version(path: &str) -> String {
    let mut lines = GO_MOD.lines().map(str::trim);
    let version = lines.find_map(|line| line.strip_prefix(path)?.strip_prefix(" v")?.split(' ').next());
    version.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_module_versions() {
        assert!(go_module_version("github.com/cockroachdb/pebble/v2").starts_with("2."));
        assert!(go_module_version("github.com/syndtr/goleveldb").starts_with("1."));
        assert_eq!(go_module_version("github.com/syndtr"), "");
    }

    #[test]
    #[cfg(feature = "fjall")]
    fn finds_crate_versions() {
        assert!(crate_version("fjall").starts_with("3."));
        assert_eq!(crate_version("fjal"), "");
    }
}
