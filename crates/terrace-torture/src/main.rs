//! `terrace-torture`: the attacks as a program. `cargo xtask` is how one calls it.

fn main() -> std::process::ExitCode {
    terrace_torture::command::main()
}
