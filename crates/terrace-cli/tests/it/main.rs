//! The program as its users see it: command lines in; output, messages and exit codes out.

mod bad_input;
mod bench;
mod dump_file;
mod entries;
mod help;
mod maintenance;
mod stock;
mod tour;
mod trial;
