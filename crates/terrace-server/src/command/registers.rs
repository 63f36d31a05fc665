//! Registers of a HyperLogLog in Redis' two forms.
//!
//! ```text
//!   0       4          5       8              16
//!   "HYLL"  encoding   unused  cached count   registers
//!
//!   dense (0)    16,384 registers of 6 bits, the lowest bits first
//!   sparse (1)   runs:  00xxxxxx           x + 1 registers are 0
//!                       01xxxxxx yyyyyyyy  xy + 1 registers are 0
//!                       1vvvvvxx           x + 1 registers are v + 1
//! ```
//!
//! The cached count is little-endian; its highest bit is set if it is out of date. The bytes are
//! those that Redis makes of the same elements in the same order.

/// Number of registers.
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// Number of bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
/// Number of the other bits of a hash.
pub(super) const RANK_BITS: usize = 64 - INDEX_BITS as usize;

const HEADER: usize = 16;
const DENSE_SIZE: usize = HEADER + REGISTERS * 6 / 8;
/// Size above which the sparse form becomes dense: Redis' `hll-sparse-max-bytes`.
const MAX_SPARSE_SIZE: usize = 3000;
/// Maximum register of the sparse form.
const MAX_SPARSE_VALUE: u8 = 32;
/// Maximum number of registers of a run with a value.
const MAX_VALUE_RUN: usize = 4;

/// Damage of a sparse form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

/// A HyperLogLog as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Registers {
    bytes: Vec<u8>,
}

/// Run of equal registers in the sparse form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    value: u8,
    len: usize,
    /// Number of bytes.
    size: usize,
}

impl Run {
    fn parse(bytes: &[u8]) -> Option<Run> {
        Some(match *bytes {
            [first @ 0..=0x3f, ..] => Run { value: 0, len: usize::from(first) + 1, size: 1 },
            [first @ 0x40..=0x7f, second, ..] => {
                Run { value: 0, len: (usize::from(first & 0x3f) << 8 | usize::from(second)) + 1, size: 2 }
            }
            [first @ 0x80..=0xff, ..] => {
                Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, size: 1 }
            }
            _ => return None,
        })
    }

    /// Appends a run, unless it is empty.
    fn push(out: &mut Vec<u8>, value: u8, len: usize) {
        match (value, len) {
            (_, 0) => {}
            (0, 1..=64) => out.push(len as u8 - 1),
            (0, _) => out.extend([0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
            _ => out.push(0x80 | (value - 1) << 2 | (len as u8 - 1)),
        }
    }
}

impl Registers {
    /// Creates the sparse form without elements.
    pub(super) fn new() -> Registers {
        let mut bytes = b"HYLL\x01".to_vec();
        bytes.resize(HEADER, 0);
        Run::push(&mut bytes, 0, REGISTERS);
        Registers { bytes }
    }

    /// Returns the registers that `bytes` are, unless the header or the size is wrong.
    pub(super) fn parse(bytes: &[u8]) -> Option<Registers> {
        let is_valid = match bytes {
            [b'H', b'Y', b'L', b'L', 0, ..] => bytes.len() == DENSE_SIZE,
            [b'H', b'Y', b'L', b'L', 1, ..] => bytes.len() >= HEADER,
            _ => false,
        };
        is_valid.then(|| Registers { bytes: bytes.to_vec() })
    }

    /// Bytes of the value.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True in the dense form.
    pub(super) fn is_dense(&self) -> bool {
        self.bytes[4] == 0
    }

    /// Cached count, unless it is out of date.
    pub(super) fn cached_count(&self) -> Option<u64> {
        let cached = self.bytes[8..HEADER].iter().rev().fold(0, |count, byte| count << 8 | u64::from(*byte));
        (cached >> 63 == 0).then_some(cached)
    }

    /// Stores the count.
    pub(super) fn set_cached_count(&mut self, count: u64) {
        self.bytes[8..HEADER].copy_from_slice(&count.to_le_bytes());
    }

    /// Marks the cached count as out of date.
    pub(super) fn invalidate_count(&mut self) {
        self.bytes[HEADER - 1] |= 0x80;
    }

    /// Adds an element. Returns true if a register has changed.
    pub(super) fn add(&mut self, element: &[u8]) -> Result<bool, Damaged> {
        let hash = murmur64a(element, 0xadc8_3b19);
        let index = hash as usize % REGISTERS;
        // The bit above the hash ends the run of zeros.
        let rank = ((hash >> INDEX_BITS) | 1 << RANK_BITS).trailing_zeros() + 1;
        self.raise(index, rank as u8)
    }

    /// Sets register `index` to `value` if that is more. Returns true if it has changed.
    pub(super) fn raise(&mut self, index: usize, value: u8) -> Result<bool, Damaged> {
        if self.is_dense() {
            return Ok(self.raise_dense(index, value));
        }
        if value > MAX_SPARSE_VALUE {
            self.make_dense()?;
            return Ok(self.raise_dense(index, value));
        }
        self.raise_sparse(index, value)
    }

    fn dense_register(&self, index: usize) -> u8 {
        let at = HEADER + index * 6 / 8;
        let next = self.bytes.get(at + 1).copied().unwrap_or(0);
        let word = u16::from(self.bytes[at]) | u16::from(next) << 8;
        (word >> (index * 6 % 8)) as u8 & 63
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        if self.dense_register(index) >= value {
            return false;
        }
        let at = HEADER + index * 6 / 8;
        let shift = index * 6 % 8;
        let mask = 63u16 << shift;
        let bits = u16::from(value) << shift;
        self.bytes[at] = self.bytes[at] & !(mask as u8) | bits as u8;
        if let Some(next) = self.bytes.get_mut(at + 1) {
            *next = *next & !((mask >> 8) as u8) | (bits >> 8) as u8;
        }
        true
    }

    fn raise_sparse(&mut self, index: usize, value: u8) -> Result<bool, Damaged> {
        // The run with the register, the run before it, and the run's first register.
        let mut at = HEADER;
        let mut before = HEADER;
        let mut first = 0;
        let run = loop {
            let run = Run::parse(&self.bytes[at..]).ok_or(Damaged)?;
            if index < first + run.len {
                break run;
            }
            before = at;
            at += run.size;
            first += run.len;
        };
        if run.value >= value {
            return Ok(false);
        }
        let mut runs = Vec::with_capacity(5);
        Run::push(&mut runs, run.value, index - first);
        Run::push(&mut runs, value, 1);
        Run::push(&mut runs, run.value, first + run.len - 1 - index);
        if runs.len() > run.size && self.bytes.len() + runs.len() - run.size > MAX_SPARSE_SIZE {
            self.make_dense()?;
            return Ok(self.raise_dense(index, value));
        }
        self.bytes.splice(at..at + run.size, runs);
        self.join_runs(before);
        Ok(true)
    }

    /// Joins adjacent runs with the same value, from the run at `at` on.
    fn join_runs(&mut self, mut at: usize) {
        /// Number of steps after which Redis ends the search.
        const STEPS: usize = 5;
        for _ in 0..STEPS {
            let Some(run) = Run::parse(&self.bytes[at.min(self.bytes.len())..]) else { return };
            let next = Run::parse(&self.bytes[at + run.size..]);
            let next = next.filter(|next| run.value > 0 && next.value == run.value);
            match next.filter(|next| run.len + next.len <= MAX_VALUE_RUN) {
                Some(next) => {
                    self.bytes[at] = 0x80 | (run.value - 1) << 2 | ((run.len + next.len) as u8 - 1);
                    self.bytes.remove(at + 1);
                }
                None => at += run.size,
            }
        }
    }

    /// Changes the sparse form to the dense one.
    pub(super) fn make_dense(&mut self) -> Result<(), Damaged> {
        if self.is_dense() {
            return Ok(());
        }
        let values = self.values()?;
        self.bytes.truncate(HEADER);
        self.bytes[4] = 0;
        self.bytes.resize(DENSE_SIZE, 0);
        for (index, value) in values.iter().enumerate() {
            if *value > 0 {
                self.raise_dense(index, *value);
            }
        }
        Ok(())
    }

    /// Returns all registers.
    pub(super) fn values(&self) -> Result<Vec<u8>, Damaged> {
        if self.is_dense() {
            return Ok((0..REGISTERS).map(|index| self.dense_register(index)).collect());
        }
        let mut values = Vec::with_capacity(REGISTERS);
        let mut rest = &self.bytes[HEADER..];
        while !rest.is_empty() {
            let run = Run::parse(rest).ok_or(Damaged)?;
            if values.len() + run.len > REGISTERS {
                return Err(Damaged);
            }
            values.resize(values.len() + run.len, run.value);
            rest = &rest[run.size..];
        }
        if values.len() == REGISTERS { Ok(values) } else { Err(Damaged) }
    }
}

/// MurmurHash64A of `input`, by Austin Appleby.
fn murmur64a(input: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let mut hash = seed ^ (input.len() as u64).wrapping_mul(M);
    let mut chunks = input.chunks_exact(8);
    for chunk in &mut chunks {
        let mut mixed = word(chunk).wrapping_mul(M);
        mixed ^= mixed >> 47;
        hash = (hash ^ mixed.wrapping_mul(M)).wrapping_mul(M);
    }
    if !chunks.remainder().is_empty() {
        hash = (hash ^ word(chunks.remainder())).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 47)).wrapping_mul(M);
    hash ^ (hash >> 47)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_have_the_same_registers() {
        let mut sparse = Registers::new();
        let mut dense = Registers::new();
        dense.make_dense().unwrap();
        assert_eq!(sparse.as_bytes(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
        for element in 0..500u32 {
            let element = element.to_le_bytes();
            assert_eq!(sparse.add(&element), dense.add(&element));
            assert_eq!(sparse.add(&element), Ok(false));
        }
        assert!(!sparse.is_dense() && dense.is_dense());
        assert_eq!(sparse.values(), dense.values());
        sparse.make_dense().unwrap();
        assert_eq!(sparse, dense);
    }

    #[test]
    fn many_elements_make_the_form_dense() {
        let mut registers = Registers::new();
        for element in 0..5000u32 {
            registers.add(&element.to_le_bytes()).unwrap();
        }
        assert!(registers.is_dense());
        assert_eq!(Registers::parse(registers.as_bytes()), Some(registers));
    }

    #[test]
    fn damaged_runs() {
        let header = Registers::new().as_bytes()[..HEADER].to_vec();
        for runs in [&b""[..], b"\x7f", b"\x7f\xff\x00", b"\x00"] {
            let mut damaged = Registers::parse(&[&*header, runs].concat()).unwrap();
            assert_eq!(damaged.values(), Err(Damaged));
            assert_eq!(damaged.make_dense(), Err(Damaged));
        }
        assert_eq!(Registers::parse(b"HYLL"), None);
        assert_eq!(Registers::parse(b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0"), None);
    }
}
