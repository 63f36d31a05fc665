//! Entries that an attacker puts into the directory of a database.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use terrace_testkit::rng::Rng;

/// User without privileges on most systems.
const OTHER_USER: u32 = 65_534;

/// Size of a file that becomes a hole, in bytes.
const HOLE_LEN: u64 = 4 << 40;

/// Puts an entry into the directory `database`, mostly in the place of a file, and describes it.
/// Draws a name if `name` is None. `outside` has a copy of each file of the database.
pub(super) fn plant_entry(
    database: &Path,
    outside: &Path,
    name: Option<String>,
    rng: &mut Rng,
) -> io::Result<String> {
    let name = match name {
        Some(name) => name,
        None => draw_name(database, rng)?,
    };
    let path = database.join(&name);
    if let Some(parent) = path.parent().filter(|parent| *parent != database) {
        if fs::symlink_metadata(parent).is_ok_and(|metadata| !metadata.is_dir()) {
            return Ok(format!("{name}: not planted"));
        }
        fs::create_dir_all(parent)?;
    }
    let kind = plant(&path, &name, outside, rng)?;
    Ok(format!("{name}: {kind}"))
}

/// Draws the name of an existing file, or a name that the database will use.
fn draw_name(database: &Path, rng: &mut Rng) -> io::Result<String> {
    const FIXED: &[&str] = &["LOCK", "LOG", "LOG.old", "CURRENT", "lost/inner"];
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(database)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name != "lost");
    names.sort();
    let existing = names[rng.below(names.len() as u64) as usize].clone();
    let number = rng.below(40);
    Ok(match rng.below(12) {
        0..4 => existing,
        4 => rng.pick(FIXED).to_owned(),
        5 => "lost".to_owned(),
        6 | 7 => {
            names.retain(|name| name.ends_with(".log") || name.starts_with("MANIFEST"));
            let moved = names.get(rng.below(names.len().max(1) as u64) as usize);
            format!("lost/{}", moved.unwrap_or(&existing))
        }
        8 => format!("{number:06}.log"),
        9 => format!("{number:06}.ldb"),
        10 => format!("MANIFEST-{number:06}"),
        _ => format!("{number:06}.dbtmp"),
    })
}

/// Kinds of the entry `lost`, mostly a link to a directory.
const LOST_KINDS: &[u64] = &[5, 5, 5, 0, 7, 8];

/// Replaces `path` and describes its replacement. Entries that need privileges are left out without
/// them.
fn plant(path: &Path, name: &str, outside: &Path, rng: &mut Rng) -> io::Result<&'static str> {
    let copy = outside.join(Path::new(name).file_name().unwrap_or_default());
    let target = if copy.is_file() && !rng.one_in(4) { copy } else { outside.join("victim") };
    let kind = if name == "lost" { rng.pick(LOST_KINDS) } else { rng.below(12) };
    if kind >= 9 {
        return change_in_place(path, kind);
    }
    remove_any(path)?;
    match kind {
        0 | 1 => symlink(target, path).map(|()| "a link to a file"),
        2 => {
            // The directory and the files outside have the same parent.
            let up = if name.contains('/') { "../.." } else { ".." };
            let inner = target.file_name().unwrap_or_default();
            symlink(Path::new(up).join("outside").join(inner), path).map(|()| "a relative link")
        }
        3 => symlink(outside.join("new"), path).map(|()| "a dangling link"),
        4 => symlink(path.file_name().unwrap_or_default(), path).map(|()| "a link to itself"),
        5 => symlink(outside.join("folder"), path).map(|()| "a link to a directory"),
        6 => fs::hard_link(target, path).map(|()| "a hard link"),
        7 => {
            fs::create_dir(path)?;
            fs::write(path.join("inner"), "a file in a directory").map(|()| "a directory")
        }
        _ => plant_node(path, rng),
    }
}

/// Creates a FIFO or a special file, with a program, because not every system has the call.
fn plant_node(path: &Path, rng: &mut Rng) -> io::Result<&'static str> {
    // The numbers of /dev/zero on Linux.
    let (program, kind, text): (_, &[&str], _) = match rng.below(3) {
        0 => ("mknod", &["c", "1", "5"], "the device /dev/zero"),
        _ => ("mkfifo", &[], "a FIFO"),
    };
    let created = Command::new(program).arg(path).args(kind).stderr(Stdio::null()).status()?;
    Ok(if created.success() { text } else { "no node, for lack of permission" })
}

/// Turns an existing file into a hole, or gives it to another user.
fn change_in_place(path: &Path, kind: u64) -> io::Result<&'static str> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok("not planted"),
        Err(_) => return fs::write(path, "garbage").map(|()| "garbage"),
    }
    if kind == 9 {
        let _ = chown(path, Some(OTHER_USER), Some(OTHER_USER));
        let changed = fs::set_permissions(path, fs::Permissions::from_mode(0o000));
        return Ok(changed.map_or("not planted", |()| "a file of another user"));
    }
    let len = if kind == 10 { HOLE_LEN } else { HOLE_LEN + 12_345 };
    let extended = fs::File::options().write(true).open(path).and_then(|file| file.set_len(len));
    Ok(extended.map_or("not planted", |()| "a file with a hole"))
}

fn remove_any(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}
