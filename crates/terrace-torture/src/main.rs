//! The program `terrace-torture`. `cargo xtask` builds and runs it.

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    terrace_torture::command::main()
}

#[cfg(windows)]
fn main() -> std::process::ExitCode {
    eprintln!("terrace-torture: the attacks need a system of the POSIX family");
    std::process::ExitCode::FAILURE
}
