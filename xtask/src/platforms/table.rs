//! The platforms beside x86-64 Linux with glibc.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::wine;
use crate::bindings::is_program;

/// A target of Rust.
pub(super) struct Platform {
    pub(super) target: &'static str,
    pub(super) compilers: Compilers,
    pub(super) runner: Runner,
    /// Packages of a run with `--all`.
    pub(super) all: Share,
    /// Packages of the share that `make test` runs.
    pub(super) short_share: Option<Share>,
}

/// Packages, built as they are and with their tests.
pub(super) struct Share {
    /// Packages that are built without tests.
    pub(super) built: &'static [&'static str],
    /// Packages whose tests are built, and run if there is a runner.
    pub(super) tested: &'static [&'static str],
    /// Tests that do not run.
    pub(super) skipped: &'static [Skipped],
}

/// Tests of one package that do not run, or that are not built for this platform.
pub(super) struct Skipped {
    pub(super) package: &'static str,
    /// Names as `cargo test -- --skip` has them.
    pub(super) tests: &'static [&'static str],
    pub(super) reason: &'static str,
}

/// Compilers for C and C++, and the linker.
pub(super) enum Compilers {
    /// Programs of GNU with this prefix.
    Gnu(&'static str),
    /// `cargo zigbuild`, with the headers and libraries that zig has.
    Zig,
}

/// Program that runs the tests of a target.
pub(super) enum Runner {
    Processor,
    /// Emulator and its arguments.
    Emulator(&'static [&'static str]),
    /// Programs of Windows, which start each other without an emulator's name.
    Wine,
    /// No program on this machine, for this reason.
    None(&'static str),
}

const ENGINE: &[&str] = &["terrace-env", "terrace-format", "terrace"];
const ON_A_MAC: &str = "this is no Mac; .ci/platform-test tests one";
/// Programs and libraries of a Mac.
const FOR_A_MAC: Share = Share {
    built: &["terrace-cli", "terrace-capi", "terrace-torture"],
    tested: &["terrace-env", "terrace-format", "terrace"],
    skipped: &[],
};

/// Tests that Wine does not run.
const NOT_ON_WINDOWS: &[Skipped] = &[
    Skipped {
        package: "terrace-cli",
        tests: &["serve::", "view::", "page_stalls::", "etcd_cluster::", "interrupted_bench::"],
        reason: "they end processes by signals of Unix",
    },
    Skipped {
        package: "terrace-cli",
        tests: &["restricted_process::"],
        reason: "they limit processes by calls of Linux",
    },
    Skipped {
        package: "terrace-cli",
        tests: &["stores::killed_migrations_continue"],
        reason: "a process by Wine starts too slowly to look between two steps",
    },
    Skipped {
        package: "terrace-server",
        tests: &["idle_connections::", "front_end_memory::"],
        reason: "they read /proc",
    },
    Skipped {
        package: "terrace-server",
        tests: &["page::assets::tests::libraries_are_the_published_files"],
        reason: "it starts the program sha256sum",
    },
    Skipped {
        package: "terrace-server",
        tests: &["connections::unix_socket"],
        reason: "Terrace has no Unix sockets on Windows",
    },
    Skipped {
        package: "terrace-server",
        tests: &[
            "kill::raw_directory_with_a_sync_each_second",
            "output_limits::subscriber_above_the_soft_limit",
            "scripts::hostile_scripts",
            "series::acknowledged_series_survive_a_kill",
        ],
        reason: "the server by Wine was too slow for their times",
    },
    Skipped {
        package: "terrace-torture",
        tests: &["the attacks"],
        reason: "they fork, and send signals of Unix",
    },
];

pub(super) static PLATFORMS: &[Platform] = &[
    Platform {
        target: "aarch64-unknown-linux-gnu",
        compilers: Compilers::Gnu("aarch64-linux-gnu-"),
        runner: Runner::Emulator(&["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]),
        all: Share {
            built: &["terrace-cli", "terrace-server", "terrace-torture"],
            tested: &["terrace-env", "terrace-format", "terrace", "terrace-capi"],
            skipped: &[],
        },
        // The tests of the engine need the server and all peers. The programs in C and C++ test the
        // engine through its library.
        short_share: Some(Share {
            built: &[],
            tested: &["terrace-env", "terrace-format", "terrace-capi"],
            skipped: &[],
        }),
    },
    Platform {
        target: "x86_64-unknown-linux-musl",
        compilers: Compilers::Zig,
        runner: Runner::Processor,
        all: Share {
            built: &[],
            tested: &["terrace-env", "terrace-format", "terrace", "terrace-cli"],
            skipped: &[],
        },
        short_share: None,
    },
    Platform {
        target: "aarch64-unknown-linux-musl",
        compilers: Compilers::Zig,
        runner: Runner::Emulator(&["qemu-aarch64"]),
        all: Share { built: &["terrace-cli"], tested: ENGINE, skipped: &[] },
        short_share: None,
    },
    Platform {
        target: "aarch64-apple-darwin",
        compilers: Compilers::Zig,
        runner: Runner::None(ON_A_MAC),
        all: FOR_A_MAC,
        short_share: None,
    },
    Platform {
        target: "x86_64-apple-darwin",
        compilers: Compilers::Zig,
        runner: Runner::None(ON_A_MAC),
        all: FOR_A_MAC,
        short_share: None,
    },
    Platform {
        target: "x86_64-pc-windows-gnu",
        compilers: Compilers::Gnu("x86_64-w64-mingw32-"),
        runner: Runner::Wine,
        all: Share {
            built: &["terrace-capi"],
            tested: &[
                "terrace-env",
                "terrace-format",
                "terrace-testkit",
                "terrace",
                "terrace-store",
                "terrace-torture",
                "terrace-server",
                "terrace-cli",
            ],
            skipped: NOT_ON_WINDOWS,
        },
        // The first build and the first start of wine take minutes.
        short_share: None,
    },
];

impl Platform {
    /// Returns why this machine cannot build or run the target, if so.
    pub(super) fn missing_tool(&self) -> Option<String> {
        let compiler = match self.compilers {
            Compilers::Gnu(prefix) => format!("{prefix}g++"),
            Compilers::Zig => "cargo-zigbuild".into(),
        };
        let emulator = self.emulator().first().map(|name| (*name).to_owned());
        let missing = [Some(compiler), emulator].into_iter().flatten().find(|tool| !is_program(tool));
        let no_wine = matches!(self.runner, Runner::Wine) && !Path::new(wine::PROGRAM).is_file();
        let missing = missing.or_else(|| no_wine.then(|| wine::PROGRAM.into()));
        let missing =
            missing.or_else(|| (!has_standard_library(self.target)).then(|| "Rust for this target".into()));
        missing.map(|tool| format!("no {tool} (make setup)"))
    }

    /// Returns a command that starts `program`.
    pub(super) fn start(&self, program: &Path) -> Command {
        match self.runner {
            Runner::Wine => wine::start(program),
            Runner::Emulator(words) => {
                let mut command = Command::new(words[0]);
                command.args(&words[1..]).arg(program);
                command
            }
            _ => Command::new(program),
        }
    }

    /// Returns the emulator and its arguments; empty for the processor.
    pub(super) fn emulator(&self) -> &'static [&'static str] {
        match self.runner {
            Runner::Emulator(words) => words,
            _ => &[],
        }
    }
}

/// Returns whether Rust's standard library for `target` is installed.
fn has_standard_library(target: &str) -> bool {
    let rustc = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    rustc.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim_end()).is_dir())
}

impl Runner {
    /// Returns the longest time without a result of a test. Processes by Wine start slowly, and a
    /// few tests start hundreds of them, so the others need not wait for these.
    pub(super) fn time_limit(&self) -> Duration {
        match self {
            Runner::Wine => Duration::from_secs(5 * 60),
            _ => Duration::from_secs(30 * 60),
        }
    }

    /// Returns the name of the emulator, or the reason of its absence.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Runner::Processor => "processor",
            Runner::Emulator(words) => words[0],
            Runner::Wine => "wine64",
            Runner::None(reason) => reason,
        }
    }
}
