//! The program `terrace-torture`. `cargo xtask` builds and runs it.

fn main() -> std::process::ExitCode {
    terrace_torture::command::main()
}
