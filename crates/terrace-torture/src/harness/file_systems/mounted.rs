//! Mounted file systems on small images. Images are sparse and in memory where that is possible.
//!
//! ```text
//!   /dev/shm/terrace-mounts-XXXXXX/
//!     owner       locked while the process uses the directory
//!     image       the file system
//!     base        mount point of the image, with `upper` and `work` for overlayfs
//!     lower, top  lower directory and mount point of overlayfs
//! ```
//!
//! A killed process leaves its mounts. The next process unmounts those of directories whose owner
//! file it can lock.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::rows::FileSystemRow;

const DIRECTORY_PREFIX: &str = "terrace-mounts-";

/// Time after which a command counts as hanging.
const COMMAND_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Directory for images and mount points of this process. Dropping it unmounts them.
#[derive(Debug)]
pub(in crate::harness) struct MountDirectory {
    dir: TempDir,
    /// Locked, so that no other process cleans up the directory.
    _owner: File,
    /// Mount points in the order of their mounts.
    mounted: Vec<PathBuf>,
}

impl MountDirectory {
    pub(in crate::harness) fn create() -> std::io::Result<MountDirectory> {
        let dir = tempfile::Builder::new().prefix(DIRECTORY_PREFIX).tempdir_in(parent_directory())?;
        let owner = File::create(dir.path().join("owner"))?;
        flock(&owner, FlockOperation::NonBlockingLockExclusive)?;
        Ok(MountDirectory { dir, _owner: owner, mounted: Vec::new() })
    }

    pub(in crate::harness) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Mounts `source` at the directory `name`. `options` may be empty.
    pub(in crate::harness) fn mount(
        &mut self,
        name: &str,
        kind: &str,
        options: &str,
        source: &Path,
    ) -> Result<PathBuf, String> {
        let point = self.path().join(name);
        std::fs::create_dir_all(&point).map_err(|error| error.to_string())?;
        let mut command = Command::new("mount");
        command.args(["-t", kind]);
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        run_command(command.arg(source).arg(&point))?;
        self.mounted.push(point.clone());
        Ok(point)
    }

    /// Creates a mount point for another process, to be unmounted like the others.
    pub(in crate::harness) fn expect_mount(&mut self, name: &str) -> std::io::Result<PathBuf> {
        let point = self.path().join(name);
        std::fs::create_dir_all(&point)?;
        self.mounted.push(point.clone());
        Ok(point)
    }

    /// Unmounts everything, the last mount first.
    pub(in crate::harness) fn unmount(&mut self) -> Result<(), String> {
        let mut outcome = Ok(());
        while let Some(point) = self.mounted.pop() {
            outcome = outcome.and(unmount(&point));
        }
        outcome
    }
}

impl Drop for MountDirectory {
    fn drop(&mut self) {
        // A busy mount is detached, so only its own error remains.
        let _ = self.unmount();
    }
}

/// Returns the parent of all mount directories, in memory where that is possible.
fn parent_directory() -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { shared_memory.into() } else { std::env::temp_dir() }
}

/// Unmounts a file system. A busy one is detached, and the result is an error.
fn unmount(point: &Path) -> Result<(), String> {
    let mut outcome = Ok(());
    for _ in 0..20 {
        outcome = run_command(Command::new("umount").arg(point));
        if outcome.is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // The first error is the one to report.
    let _ = run_command(Command::new("umount").arg("-l").arg(point));
    outcome
}

/// Unmounts and removes the directories of killed processes.
pub(in crate::harness) fn remove_stale_mounts() {
    let parent = parent_directory();
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else { return };
    let Ok(entries) = std::fs::read_dir(&parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX);
        let Ok(owner) = File::open(entry.path().join("owner")) else { continue };
        if !is_ours || flock(&owner, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new);
        let stale: Vec<&Path> = points.filter(|point| point.starts_with(entry.path())).collect();
        let is_unmounted = stale.iter().rev().all(|point| unmount(point).is_ok());
        if is_unmounted {
            // A failure leaves the directory to the next process.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A file system of the table, with an empty directory for the database.
#[derive(Debug)]
pub(in crate::harness) struct MountedFileSystem {
    row: &'static FileSystemRow,
    mounts: MountDirectory,
}

impl MountedFileSystem {
    /// Creates and mounts a file system. An error means that this machine cannot test it.
    pub(in crate::harness) fn create(row: &'static FileSystemRow) -> Result<MountedFileSystem, String> {
        let mounts = MountDirectory::create().map_err(|error| error.to_string())?;
        let mut mounted = MountedFileSystem { row, mounts };
        make_file_system(row, &mounted.image_path())?;
        mounted.mount()?;
        Ok(mounted)
    }

    fn image_path(&self) -> PathBuf {
        self.mounts.path().join("image")
    }

    fn mount(&mut self) -> Result<(), String> {
        let image = self.image_path();
        let (kind, options) = self.row.mount;
        let options = match self.row.mkfs {
            [] => format!("size={}m", self.row.image_mib),
            _ if options.is_empty() => "loop".into(),
            _ => format!("loop,{options}"),
        };
        let base = self.mounts.mount("base", kind, &options, &image)?;
        if self.row.has_overlay {
            let lower = self.mounts.path().join("lower");
            let upper = base.join("upper");
            let work = base.join("work");
            for path in [&lower, &upper, &work] {
                std::fs::create_dir_all(path).map_err(|error| error.to_string())?;
            }
            let directories = format!(
                "lowerdir={},upperdir={},workdir={}",
                lower.display(),
                upper.display(),
                work.display()
            );
            self.mounts.mount("top", "overlay", &directories, Path::new("overlay"))?;
        }
        Ok(())
    }

    /// Unmounts and mounts the file system, so that later reads come from the image. Does nothing
    /// for tmpfs, which would lose its files.
    pub(in crate::harness) fn remount(&mut self) -> Result<(), String> {
        if self.row.mkfs.is_empty() {
            return Ok(());
        }
        self.mounts.unmount()?;
        self.mount()
    }

    /// Returns the directory for the database.
    pub(in crate::harness) fn directory(&self) -> PathBuf {
        self.mounts.path().join(if self.row.has_overlay { "top" } else { "base" })
    }
}

/// Creates an image with the file system of a row. Does nothing for tmpfs.
pub(in crate::harness) fn make_file_system(row: &FileSystemRow, image: &Path) -> Result<(), String> {
    let [program, arguments @ ..] = row.mkfs else { return Ok(()) };
    let created = File::create(image).and_then(|file| file.set_len(row.image_mib << 20));
    created.map_err(|error| format!("{}: {error}", image.display()))?;
    run_command(Command::new(program).args(arguments).arg(image))
}

/// Runs a command of the system, and kills it after a time limit. The error contains its output.
pub(in crate::harness) fn run_command(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // These directories are not in the path of every user.
    let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    let describe = |error: std::io::Error| format!("{name}: {error}");
    let output = tempfile::tempfile().map_err(describe)?;
    let mut child = command
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output.try_clone().map_err(describe)?)
        .spawn()
        .map_err(describe)?;
    let started = Instant::now();
    loop {
        match child.try_wait().map_err(describe)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{name}: {status}: {}", read_output(&output).trim_end())),
            None if started.elapsed() > COMMAND_TIME_LIMIT => {
                // Fails only if the command has ended. A command that hangs in the kernel cannot be
                // waited for.
                let _ = child.kill();
                return Err(format!("{name}: hangs"));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn read_output(file: &File) -> String {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; 4096];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}
