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
    let first = from.latitude.to_radians();
    let second = to.latitude.to_radians();
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
        let palermo = Position { longitude: 13.361_389_338_970_184, latitude: 38.115_556_395_496_3 };
        let catania = Position { longitude: 15.087_267_458_438_873, latitude: 37.502_668_423_331_62 };
        assert_eq!(format_distance(distance(palermo, catania)), "166274.1516");
        assert_eq!(distance(palermo, palermo), 0.0);
    }
}
