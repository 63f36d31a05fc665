//! Library `bit`: operations on integers of 32 bits.

use super::args::{LuaArgs, Native, Results};
use mlua::Value;

/// Functions of the library.
pub(super) static FUNCTIONS: &[(&str, Native)] = &[
    ("tobit", |args| result(operand(args, 1)?)),
    ("bnot", |args| result(!operand(args, 1)?)),
    ("band", |args| fold(args, |a, b| a & b)),
    ("bor", |args| fold(args, |a, b| a | b)),
    ("bxor", |args| fold(args, |a, b| a ^ b)),
    ("lshift", |args| result(operand(args, 1)? << (operand(args, 2)? & 31))),
    ("rshift", |args| result(operand(args, 1)? >> (operand(args, 2)? & 31))),
    ("arshift", |args| result((operand(args, 1)? as i32 >> (operand(args, 2)? & 31)) as u32)),
    ("rol", |args| result(operand(args, 1)?.rotate_left(operand(args, 2)? & 31))),
    ("ror", |args| result(operand(args, 1)?.rotate_right(operand(args, 2)? & 31))),
    ("bswap", |args| result(operand(args, 1)?.swap_bytes())),
    ("tohex", tohex),
];

fn operand(args: &LuaArgs<'_>, index: usize) -> Result<u32, String> {
    let number = args.number(index)?;
    Ok(number.round_ties_even().rem_euclid(4_294_967_296.0) as u32)
}

fn result(bits: u32) -> Results {
    Ok(Value::Number(f64::from(bits as i32)).into())
}

fn fold(args: &LuaArgs<'_>, operation: fn(u32, u32) -> u32) -> Results {
    let mut bits = operand(args, 1)?;
    for index in 2..=args.len() {
        bits = operation(bits, operand(args, index)?);
    }
    result(bits)
}

/// tohex(number [, digits]): a negative number of digits means capital letters.
fn tohex(args: &LuaArgs<'_>) -> Results {
    let bits = operand(args, 1)?;
    let wanted = if args.len() < 2 { 8 } else { operand(args, 2)? as i32 };
    let digits = wanted.unsigned_abs().min(8) as usize;
    let text = if wanted < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    args.string(&text.as_bytes()[8 - digits..])
}
