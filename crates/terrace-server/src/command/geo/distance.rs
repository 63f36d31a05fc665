//! Distances on the earth, as a sphere.

use super::Position;

/// Radius of the earth, in metres.
pub(super) const EARTH_RADIUS: f64 = 6_372_797.560856;

/// Returns the distance of two positions by the haversine formula, in metres.
pub(super) fn distance(from: Position, to: Position) -> f64 {
    let half_longitude = ((to.longitude.to_radians() - from.longitude.to_radians()) / 2.0).sin();
    if half_longitude == 0.0 {
        return latitude_distance(from.latitude, to.latitude);
    }
    let (first, second) = (from.latitude.to_radians(), to.latitude.to_radians());
    let half_latitude = ((second - first) / 2.0).sin();
    let chord = half_latitude * half_latitude + first.cos() * second.cos() * half_longitude * half_longitude;
    2.0 * EARTH_RADIUS * chord.sqrt().asin()
}

/// Returns the distance of two positions on one meridian, in metres.
pub(super) fn latitude_distance(from: f64, to: f64) -> f64 {
    EARTH_RADIUS * (to.to_radians() - from.to_radians()).abs()
}

/// Formats a distance like Redis, with four decimals.
pub(super) fn format_distance(distance: f64) -> String {
    format!("{distance:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_of_two_cities() {
        let palermo = Position { longitude: 13.36138933897018433, latitude: 38.11555639549629859 };
        let catania = Position { longitude: 15.08726745843887329, latitude: 37.50266842333162032 };
        assert_eq!(format_distance(distance(palermo, catania)), "166274.1516");
        assert_eq!(distance(palermo, palermo), 0.0);
    }
}
