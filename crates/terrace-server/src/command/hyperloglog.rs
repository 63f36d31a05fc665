//! HyperLogLog: counts of distinct elements, with a standard error of 0.81 %.

use super::execute::check_writable;
use super::registers::{Damaged, RANK_BITS, REGISTERS, Registers};
use super::{Args, Call};
use crate::failure::{CommandResult, Failure};
use crate::store::{Entry, EventClass, Replaced};

impl From<Damaged> for Failure {
    fn from(_: Damaged) -> Failure {
        Failure::reply("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// Entry with its registers.
fn registers(call: &mut Call<'_>, key: &[u8]) -> CommandResult<Option<(Entry, Registers)>> {
    let Some(entry) = call.get_string(key)? else { return Ok(None) };
    let registers = Registers::parse(entry.value());
    let registers =
        registers.ok_or(Failure::reply("WRONGTYPE Key is not a valid HyperLogLog string value."))?;
    Ok(Some((entry, registers)))
}

fn put(call: &mut Call<'_>, key: &[u8], registers: &Registers, old: Option<&Entry>) -> CommandResult {
    call.put_string(key, registers.as_bytes(), old.and_then(Entry::expires_at), Replaced::Read(old))
}

/// PFADD key [element ..]
pub(super) fn pfadd(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let found = registers(call, &args[1])?;
    let mut is_changed = found.is_none();
    let (entry, mut registers) = match found {
        Some((entry, registers)) => (Some(entry), registers),
        None => (None, Registers::new()),
    };
    for element in args.from(2) {
        is_changed |= registers.add(element)?;
    }
    if is_changed {
        registers.invalidate_count();
        put(call, &args[1], &registers, entry.as_ref())?;
        call.notify(EventClass::STRING, "pfadd", &args[1]);
    }
    call.reply.integer(i64::from(is_changed));
    Ok(())
}

/// PFCOUNT key ..
pub(super) fn pfcount(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    if args.len() > 2 {
        let count = estimate(&union(call, args)?.0);
        call.reply.integer(count as i64);
        return Ok(());
    }
    let Some((entry, mut registers)) = registers(call, &args[1])? else {
        call.reply.integer(0);
        return Ok(());
    };
    let count = match registers.cached_count() {
        Some(count) => count,
        None => {
            let count = estimate(&registers.values()?);
            // The next count needs no registers. A refused write is no error of a read.
            if check_writable(call.shared).is_ok() {
                registers.set_cached_count(count);
                put(call, &args[1], &registers, Some(&entry))?;
            }
            count
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Returns the highest registers of all keys, and true if one of them is dense.
fn union(call: &mut Call<'_>, args: Args<'_>) -> CommandResult<(Vec<u8>, bool)> {
    let mut union = vec![0; REGISTERS];
    let mut is_dense = false;
    for key in args.from(1) {
        let Some((_, registers)) = registers(call, key)? else { continue };
        is_dense |= registers.is_dense();
        for (highest, value) in union.iter_mut().zip(registers.values()?) {
            *highest = value.max(*highest);
        }
    }
    Ok((union, is_dense))
}

/// PFMERGE destination [source ..]
pub(super) fn pfmerge(call: &mut Call<'_>, args: Args<'_>) -> CommandResult {
    let (union, is_dense) = union(call, args)?;
    let found = registers(call, &args[1])?;
    let (entry, mut registers) = match found {
        Some((entry, registers)) => (Some(entry), registers),
        None => (None, Registers::new()),
    };
    if is_dense {
        registers.make_dense()?;
    }
    for (index, value) in union.iter().enumerate().filter(|(_, value)| **value > 0) {
        registers.raise(index, *value)?;
    }
    registers.invalidate_count();
    put(call, &args[1], &registers, entry.as_ref())?;
    call.notify(EventClass::STRING, "pfadd", &args[1]);
    call.reply.ok();
    Ok(())
}

/// Estimates the number of elements: O. Ertl, "New cardinality estimation algorithms for
/// HyperLogLog sketches", 2017, algorithm 6.
fn estimate(values: &[u8]) -> u64 {
    /// 1 / (2 ln 2).
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let mut counts = [0u32; 64];
    for value in values {
        counts[usize::from(*value & 63)] += 1;
    }
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(counts[RANK_BITS + 1])) / m);
    for count in counts[1..=RANK_BITS].iter().rev() {
        z = (z + f64::from(*count)) * 0.5;
    }
    z += m * sigma(f64::from(counts[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let mut y = 1.0;
    let mut z = x;
    loop {
        x *= x;
        let last = z;
        z += x * y;
        y += y;
        if z == last {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let mut y = 1.0;
    let mut z = 1.0 - x;
    loop {
        x = x.sqrt();
        let last = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == last {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_of_distinct_elements() {
        assert_eq!(estimate(&[0; REGISTERS]), 0);
        let mut registers = Registers::new();
        let mut elements = 0;
        for count in [1u32, 10, 100, 1000, 10_000, 100_000] {
            while elements < count {
                registers.add(&elements.to_le_bytes()).unwrap();
                elements += 1;
            }
            let found = estimate(&registers.values().unwrap()) as f64;
            let error = (found - f64::from(count)).abs() / f64::from(count);
            assert!(error < 0.03, "{count}: {found}");
        }
    }
}
