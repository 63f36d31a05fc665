//! Cells of the grid of geohashes.
//!
//! A geohash of `2 * step` bits interleaves a row and a column of a grid with `2^step` rows and
//! columns. The lowest bit belongs to the row.

use super::Position;

/// Largest longitude, in degrees. The smallest one is negative.
pub(super) const MAX_LONGITUDE: f64 = 180.0;
/// Largest latitude of the projection, in degrees. The smallest one is negative.
pub(super) const MAX_LATITUDE: f64 = 85.05112878;
/// Largest latitude of geohashes as text, in degrees.
const POLE: f64 = 90.0;
/// Number of bits of a row in a score.
pub(super) const MAX_STEP: u32 = 26;
/// Digits of a geohash as text.
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// Cell of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) column: u64,
    pub(super) row: u64,
    pub(super) step: u32,
}

/// Borders of a cell, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Borders {
    pub(super) west: f64,
    pub(super) east: f64,
    pub(super) south: f64,
    pub(super) north: f64,
}

impl Cell {
    /// Returns the cell of `position`.
    pub(super) fn at(position: Position, step: u32) -> Cell {
        Cell {
            column: index(position.longitude, MAX_LONGITUDE, step),
            row: index(position.latitude, MAX_LATITUDE, step),
            step,
        }
    }

    /// Borders of the cell.
    pub(super) fn borders(self) -> Borders {
        let border = |index: u64, max: f64| {
            let size = (1u64 << self.step) as f64;
            -max + (index as f64 / size) * (2.0 * max)
        };
        Borders {
            west: border(self.column, MAX_LONGITUDE),
            east: border(self.column + 1, MAX_LONGITUDE),
            south: border(self.row, MAX_LATITUDE),
            north: border(self.row + 1, MAX_LATITUDE),
        }
    }

    /// Returns the cell `east` columns to the east and `north` rows to the north. The grid has no
    /// edges.
    pub(super) fn neighbor(self, east: i64, north: i64) -> Cell {
        let mask = (1u64 << self.step) - 1;
        Cell {
            column: self.column.wrapping_add_signed(east) & mask,
            row: self.row.wrapping_add_signed(north) & mask,
            step: self.step,
        }
    }

    /// Returns the first geohash in the cell, and the first one after the cell.
    pub(super) fn scores(self) -> (u64, u64) {
        let hash = interleave(self.column, self.row);
        let shift = 2 * (MAX_STEP - self.step);
        (hash << shift, (hash + 1) << shift)
    }
}

fn index(value: f64, max: f64, step: u32) -> u64 {
    let offset = (value + max) / (2.0 * max);
    let size = 1u64 << step;
    // The largest value belongs to the last cell.
    ((offset * size as f64) as u64).min(size - 1)
}

fn interleave(column: u64, row: u64) -> u64 {
    (0..MAX_STEP)
        .fold(0, |hash, bit| hash | ((row >> bit) & 1) << (2 * bit) | ((column >> bit) & 1) << (2 * bit + 1))
}

fn deinterleave(hash: u64) -> (u64, u64) {
    (0..MAX_STEP).fold((0, 0), |(column, row), bit| {
        (column | ((hash >> (2 * bit + 1)) & 1) << bit, row | ((hash >> (2 * bit)) & 1) << bit)
    })
}

/// Returns the geohash of a position.
pub(super) fn encode(position: Position) -> u64 {
    Cell::at(position, MAX_STEP).scores().0
}

/// Returns the position in the middle of the cell of a geohash.
pub(super) fn decode(hash: u64) -> Position {
    let (column, row) = deinterleave(hash);
    let borders = Cell { column, row, step: MAX_STEP }.borders();
    let middle = |low: f64, high: f64, max: f64| ((low + high) / 2.0).clamp(-max, max);
    Position {
        longitude: middle(borders.west, borders.east, MAX_LONGITUDE),
        latitude: middle(borders.south, borders.north, MAX_LATITUDE),
    }
}

/// Returns the geohash of a position as text, with the latitudes up to the poles.
pub(super) fn text(position: Position) -> String {
    let column = index(position.longitude, MAX_LONGITUDE, MAX_STEP);
    let row = index(position.latitude, POLE, MAX_STEP);
    let hash = interleave(column, row);
    // The last digit has no bits.
    let digits = (0..10).map(|at| ((hash >> (47 - 5 * at)) & 31) as usize).chain([0]);
    digits.map(|digit| char::from(DIGITS[digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };

    #[test]
    fn geohash_of_a_city() {
        assert_eq!(encode(PALERMO), 3_479_099_956_230_698);
        let decoded = decode(3_479_099_956_230_698);
        assert_eq!(format!("{:.17}", decoded.longitude), "13.36138933897018433");
        assert_eq!(text(decoded), "sqc8b49rny0");
    }

    #[test]
    fn corners_of_the_grid() {
        let corner = Position { longitude: MAX_LONGITUDE, latitude: MAX_LATITUDE };
        assert_eq!(encode(corner), (1 << 52) - 1);
        let opposite = Position { longitude: -MAX_LONGITUDE, latitude: -MAX_LATITUDE };
        assert_eq!(encode(opposite), 0);
        let cell = Cell::at(corner, 3);
        assert_eq!(cell.neighbor(1, 1), Cell::at(opposite, 3));
        assert_eq!(cell.neighbor(1, 1).neighbor(-1, -1), cell);
    }

    #[test]
    fn scores_of_a_cell() {
        let (begin, end) = Cell::at(PALERMO, 4).scores();
        assert!((begin..end).contains(&encode(PALERMO)));
        assert_eq!(end - begin, 1 << 44);
    }
}
