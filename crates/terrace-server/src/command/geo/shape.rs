//! Areas of a search, and the cells that cover them.

use super::Position;
use super::cell::{Borders, Cell, MAX_STEP};
use super::distance::{EARTH_RADIUS, distance, latitude_distance};

/// Half of the circumference of the projection, in metres.
const HALF_CIRCUMFERENCE: f64 = 20_037_726.37;

/// Form of an area, in metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// Area around a position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) center: Position,
    pub(super) shape: Shape,
}

impl Area {
    /// Returns the distance of `position` from the centre in metres, or None outside of the area.
    pub(super) fn distance(&self, position: Position) -> Option<f64> {
        let from_center = distance(self.center, position);
        match self.shape {
            Shape::Circle { radius } => (from_center <= radius).then_some(from_center),
            Shape::Box { width, height } => {
                let middle = Position { longitude: self.center.longitude, latitude: position.latitude };
                let is_inside = latitude_distance(self.center.latitude, position.latitude) <= height / 2.0
                    && distance(position, middle) <= width / 2.0;
                is_inside.then_some(from_center)
            }
        }
    }

    /// Radius of a circle around the area, in metres.
    fn radius(&self) -> f64 {
        match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        }
    }

    /// Returns the cells that cover the area: the cell of the centre and its neighbours.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut center = Cell::at(self.center, self.step());
        if center.step > 1 && !self.is_covered_by_neighbors(center) {
            center = Cell::at(self.center, center.step - 1);
        }
        let mut cells: Vec<Cell> = Vec::with_capacity(NEIGHBORS.len());
        for (east, north) in NEIGHBORS {
            let is_needed = center.step < 2 || self.reaches(center, east, north);
            let cell = center.neighbor(east, north);
            // A coarse grid has fewer columns and rows than neighbours.
            if is_needed && !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    /// Step at which a cell is about as large as the area.
    fn step(&self) -> u32 {
        let mut size = self.radius();
        if size == 0.0 {
            return MAX_STEP;
        }
        let mut step: u32 = 1;
        while size < HALF_CIRCUMFERENCE {
            size *= 2.0;
            step += 1;
        }
        // Two steps wider, and wider near the poles, where the cells are narrow.
        let latitude = self.center.latitude.abs();
        let wider = 2 + u32::from(latitude > 66.0) + u32::from(latitude > 80.0);
        step.saturating_sub(wider).clamp(1, MAX_STEP)
    }

    /// True if the neighbours of `cell` contain the box around the area. At the edges of the grid,
    /// they do not.
    fn is_covered_by_neighbors(&self, cell: Cell) -> bool {
        let around = self.bounding_box();
        cell.neighbor(0, 1).borders().north >= around.north
            && cell.neighbor(0, -1).borders().south <= around.south
            && cell.neighbor(1, 0).borders().east >= around.east
            && cell.neighbor(-1, 0).borders().west <= around.west
    }

    /// True if the area may extend from `cell` to a neighbour.
    fn reaches(&self, cell: Cell, east: i64, north: i64) -> bool {
        let around = self.bounding_box();
        let borders = cell.borders();
        !((east < 0 && borders.west < around.west)
            || (east > 0 && borders.east > around.east)
            || (north < 0 && borders.south < around.south)
            || (north > 0 && borders.north > around.north))
    }

    /// Returns a box around the area. It may extend beyond the grid.
    fn bounding_box(&self) -> Borders {
        let (half_width, half_height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Position { longitude, latitude } = self.center;
        let latitude_delta = (half_height / EARTH_RADIUS).to_degrees();
        let widest = if latitude < 0.0 { latitude - latitude_delta } else { latitude + latitude_delta };
        let longitude_delta = if widest.abs() < 90.0 {
            (half_width / EARTH_RADIUS / widest.to_radians().cos()).to_degrees()
        } else {
            // An area around a pole has all longitudes.
            360.0
        };
        Borders {
            west: longitude - longitude_delta,
            east: longitude + longitude_delta,
            south: latitude - latitude_delta,
            north: latitude + latitude_delta,
        }
    }
}

/// Neighbours of a cell, in the order of the search: columns to the east, rows to the north.
const NEIGHBORS: [(i64, i64); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

#[cfg(test)]
mod tests {
    use super::*;

    const PARIS: Position = Position { longitude: 2.35, latitude: 48.85 };

    #[test]
    fn positions_in_an_area() {
        let near = Position { longitude: 2.36, latitude: 48.85 };
        let circle = Area { center: PARIS, shape: Shape::Circle { radius: 1000.0 } };
        assert!(circle.distance(near).is_some_and(|found| (700.0..800.0).contains(&found)));
        let narrow = Area { center: PARIS, shape: Shape::Box { width: 1000.0, height: 9000.0 } };
        assert_eq!(narrow.distance(near), None);
    }

    #[test]
    fn cells_cover_every_position_of_an_area() {
        for (longitude, latitude) in [(2.35, 48.85), (-179.9, 10.0), (20.0, 78.0), (0.0, -40.0)] {
            for radius in [10.0, 5_000.0, 300_000.0] {
                let center = Position { longitude, latitude };
                let area = Area { center, shape: Shape::Circle { radius } };
                let cells = area.cells();
                for step in 0..36 {
                    let angle = f64::from(step) * std::f64::consts::PI / 18.0;
                    let delta = 0.9 * (radius / EARTH_RADIUS).to_degrees();
                    let latitude = latitude + delta * angle.sin();
                    let offset = delta * angle.cos() / latitude.to_radians().cos();
                    let longitude = (longitude + offset + 540.0).rem_euclid(360.0) - 180.0;
                    let edge = Position { longitude, latitude };
                    if area.distance(edge).is_some() {
                        let hash = super::super::encode(edge);
                        let is_covered =
                            cells.iter().any(|cell| (cell.scores().0..cell.scores().1).contains(&hash));
                        assert!(is_covered, "{center:?} {radius} {edge:?}");
                    }
                }
            }
        }
    }
}
