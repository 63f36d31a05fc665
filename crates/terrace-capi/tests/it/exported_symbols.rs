//! Exported symbols of the library.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::library::{crate_dir, library_dir, run_command, stock_library};

/// Returns the exported symbols of a library.
fn exported_symbols(library: &Path) -> BTreeSet<String> {
    let listed =
        run_command(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(library)).stdout;
    let listed = String::from_utf8(listed).unwrap();
    listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Returns the names of `symbols.txt`.
fn listed_symbols() -> BTreeSet<String> {
    let text = std::fs::read_to_string(crate_dir().join("symbols.txt")).unwrap();
    let names = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    // The second name of a function precedes ` = `.
    names.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn exported_symbols_match_symbols_txt() {
    let exported = exported_symbols(&library_dir().join("libleveldb.so.1d"));
    let listed = listed_symbols();
    let missing: Vec<_> = listed.difference(&exported).collect();
    let unlisted: Vec<_> = exported.difference(&listed).collect();
    assert!(missing.is_empty() && unlisted.is_empty(), "missing: {missing:#?}, unlisted: {unlisted:#?}");
}

/// Private members of LevelDB's classes, which no program can call.
const PRIVATE_MEMBERS: &[&str] = &[
    "_ZN7leveldb12TableBuilder10WriteBlockEPNS_12BlockBuilderEPNS_11BlockHandleE",
    "_ZN7leveldb12TableBuilder13WriteRawBlockERKNS_5SliceENS_15CompressionTypeEPNS_11BlockHandleE",
    "_ZN7leveldb5Table10ReadFilterERKNS_5SliceE",
    "_ZN7leveldb5Table11BlockReaderEPvRKNS_11ReadOptionsERKNS_5SliceE",
    "_ZN7leveldb5Table11InternalGetERKNS_11ReadOptionsERKNS_5SliceEPvPFvS7_S6_S6_E",
    "_ZN7leveldb5Table8ReadMetaERKNS_6FooterE",
];

/// Returns whether a symbol is a template of the C++ library, which programs instantiate
/// themselves, or a class inside a function.
fn is_incidental(name: &str) -> bool {
    ["_ZNSt", "_ZSt", "_ZTINSt", "_ZTSNSt", "_ZTVNSt", "_ZTIZ", "_ZTSZ", "_ZTVZ"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[test]
fn symbols_txt_matches_the_stock_library() {
    let Some(stock) = stock_library() else { return };
    let public = |name: &String| !is_incidental(name) && !PRIVATE_MEMBERS.contains(&name.as_str());
    let public: BTreeSet<String> = exported_symbols(&stock).into_iter().filter(public).collect();
    let ours: BTreeSet<String> =
        listed_symbols().into_iter().filter(|name| !name.starts_with("terrace_")).collect();
    assert_eq!(ours, public);
}

/// Returns whether a library is the dynamic loader, whose name ends with the architecture.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux-")
}

/// The needed libraries, and the soname under which programs load the library.
#[test]
fn soname_and_needed_libraries() {
    let library = library_dir().join("libleveldb.so.1d");
    let dynamic = run_command(Command::new("readelf").arg("-d").arg(library)).stdout;
    let dynamic = String::from_utf8(dynamic).unwrap();
    let named = |tag: &str| -> BTreeSet<String> {
        let lines = dynamic.lines().filter(|line| line.contains(tag));
        lines.filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned())).collect()
    };
    assert_eq!(named("(SONAME)"), BTreeSet::from(["libleveldb.so.1d".to_owned()]));
    let allowed = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"];
    let more: Vec<String> = named("(NEEDED)")
        .into_iter()
        .filter(|name| !allowed.contains(&name.as_str()) && !is_loader(name))
        .collect();
    assert!(more.is_empty(), "{more:?}");
}
