//! Filter of the calling thread's system calls, and of all threads that it starts later.
//!
//! ```text
//!   each rule:   load number ── other ──> next rule
//!                load argument & mask ── other ──> next rule      only with an argument
//!                return errno
//!   last:        allow
//! ```
#![allow(unsafe_code)] // No safe wrapper exists for `prctl` with a filter.

use std::io;

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// System call that fails.
#[derive(Debug, Clone, Copy)]
pub(in crate::harness) struct RefusedCall {
    pub(in crate::harness) number: libc::c_long,
    /// Argument that must match, or `None` to refuse every call.
    pub(in crate::harness) argument: Option<ArgumentMatch>,
}

/// Condition on the lower 32 bits of an argument: `argument & mask == value`.
#[derive(Debug, Clone, Copy)]
pub(in crate::harness) struct ArgumentMatch {
    pub(in crate::harness) index: u32,
    pub(in crate::harness) mask: u32,
    pub(in crate::harness) value: u32,
}

/// Offset of the number in `seccomp_data`, in bytes.
const NUMBER_OFFSET: u32 = 0;
/// Offset of the first argument in `seccomp_data`. An argument has eight bytes, lower half first.
const ARGUMENTS_OFFSET: u32 = 16;

/// Makes the calls fail with `errno` from now on. The process cannot undo this.
pub(in crate::harness) fn refuse(calls: &[RefusedCall], errno: i32) -> io::Result<()> {
    let mut filter: Vec<sock_filter> = calls.iter().flat_map(|call| rule(call, errno)).collect();
    filter.push(statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: this option has integer arguments only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: `program` points to `filter`, which has the stated length. The system copies both
    // during the call.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the statements for one call. A statement that does not match jumps to their end.
fn rule(call: &RefusedCall, errno: i32) -> Vec<sock_filter> {
    let mut rule = vec![
        statement(BPF_LD | BPF_W | BPF_ABS, NUMBER_OFFSET),
        jump_unless_equal(call.number as u32, if call.argument.is_some() { 4 } else { 1 }),
    ];
    if let Some(argument) = call.argument {
        rule.push(statement(BPF_LD | BPF_W | BPF_ABS, ARGUMENTS_OFFSET + 8 * argument.index));
        rule.push(statement(BPF_ALU | BPF_AND | BPF_K, argument.mask));
        rule.push(jump_unless_equal(argument.value, 1));
    }
    rule.push(statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32));
    rule
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `count` statements unless the loaded word equals `value`.
fn jump_unless_equal(value: u32, count: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: count, k: value }
}
