//! A figure under construction: a few shapes, their classes, and what it says to those who can't see it.
//!
//! Colours, dashes and fonts are the style sheet's; a figure knows classes. `e0` to `e7` are the colours of engines,
//! `d0` to `d4` their dashes; `marker` is one of seven shapes. These have no common divisor, so engines of one colour
//! have another dash and shape.

use std::fmt::{Display, Write};

use super::text::escape;

/// Every figure's width: one column on a desk, the whole of a phone.
pub(super) const WIDTH: f64 = 360.0;

/// A figure.
pub(super) struct Svg {
    id: String,
    title: String,
    body: String,
}

/// The end of a text that its place is.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// `id` is unique in the page.
    pub(super) fn new(id: impl Display, title: impl Display) -> Svg {
        Svg { id: id.to_string(), title: title.to_string(), body: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(format_coordinate);
        self.add(format_args!(r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#));
    }

    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let [x, y, width, height] = [x, y, width.max(0.0), height].map(format_coordinate);
        self.add(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"/>"#
        ));
    }

    pub(super) fn path(&mut self, class: &str, data: &Path) {
        self.add(format_args!(r#"<path class="{class}" d="{}"/>"#, data.0));
    }

    /// An engine's shape.
    pub(super) fn marker(&mut self, style: usize, at: (f64, f64)) {
        let class = format!("marker e{}", style % 8);
        self.path(&class, &marker(style, at));
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let [x, y] = [x, y].map(format_coordinate);
        let text = escape(&text.to_string());
        self.add(format_args!(
            r#"<text class="{class}" text-anchor="{anchor}" x="{x}" y="{y}">{text}</text>"#
        ));
    }

    /// A part of the figure that tells `tip` to the pointer. It shows a hairline if it is part of a curve.
    pub(super) fn pointer_region(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        tip: &str,
    ) {
        self.add(format_args!(r#"<g class="hit {class}"><title>{}</title>"#, escape(tip)));
        self.rect("area", (x, y), (width, height));
        if class == "curve" {
            let middle = x + width / 2.0;
            self.line("hair", (middle, y), (middle, y + height));
        }
        self.body.push_str("</g>");
    }

    /// The finished figure; `says` is what it shows, in words.
    pub(super) fn finish(self, height: f64, says: &str) -> String {
        let Svg { id, title, body } = self;
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{body}</svg>"#,
            format_coordinate(height),
            escape(&title),
            escape(says),
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.body.write_fmt(shape);
    }
}

/// The way of a pen.
#[derive(Default)]
pub(super) struct Path(String);

impl Path {
    /// Lifts the pen, and puts it down at `to`.
    pub(super) fn move_to(&mut self, to: (f64, f64)) -> &mut Path {
        self.push_command('M', to)
    }

    /// Draws to `to`.
    pub(super) fn line_to(&mut self, to: (f64, f64)) -> &mut Path {
        self.push_command('L', to)
    }

    /// Draws back to where the pen was put down.
    pub(super) fn close(&mut self) {
        self.0.push('Z');
    }

    fn push_command(&mut self, how: char, (x, y): (f64, f64)) -> &mut Path {
        // Writing to a String does not fail.
        let _ = write!(self.0, "{how}{} {}", format_coordinate(x), format_coordinate(y));
        self
    }
}

/// One of seven shapes, about 7 units wide.
fn marker(style: usize, (x, y): (f64, f64)) -> Path {
    static SHAPES: [&[(f64, f64)]; 7] = [
        // Octagon, square, triangle, diamond, then: triangle upside down, cross, plus.
        &[
            (3.4, 1.4),
            (1.4, 3.4),
            (-1.4, 3.4),
            (-3.4, 1.4),
            (-3.4, -1.4),
            (-1.4, -3.4),
            (1.4, -3.4),
            (3.4, -1.4),
        ],
        &[(3.0, 3.0), (-3.0, 3.0), (-3.0, -3.0), (3.0, -3.0)],
        &[(0.0, -3.8), (3.8, 3.0), (-3.8, 3.0)],
        &[(0.0, -4.2), (4.2, 0.0), (0.0, 4.2), (-4.2, 0.0)],
        &[(0.0, 3.8), (3.8, -3.0), (-3.8, -3.0)],
        &[
            (0.0, 1.4),
            (2.4, 3.8),
            (3.8, 2.4),
            (1.4, 0.0),
            (3.8, -2.4),
            (2.4, -3.8),
            (0.0, -1.4),
            (-2.4, -3.8),
            (-3.8, -2.4),
            (-1.4, 0.0),
            (-3.8, 2.4),
            (-2.4, 3.8),
        ],
        &[
            (1.1, 1.1),
            (1.1, 4.0),
            (-1.1, 4.0),
            (-1.1, 1.1),
            (-4.0, 1.1),
            (-4.0, -1.1),
            (-1.1, -1.1),
            (-1.1, -4.0),
            (1.1, -4.0),
            (1.1, -1.1),
            (4.0, -1.1),
            (4.0, 1.1),
        ],
    ];
    let mut path = Path::default();
    for (corner, (dx, dy)) in SHAPES[style % SHAPES.len()].iter().enumerate() {
        let to = (x + dx, y + dy);
        if corner == 0 {
            path.move_to(to)
        } else {
            path.line_to(to)
        };
    }
    path.close();
    path
}

/// The marker as a picture of its own, for tables and headings.
pub(super) fn icon(style: usize) -> String {
    let shape = marker(style, (6.0, 6.0)).0;
    format!(
        r#"<svg class="icon" viewBox="0 0 12 12" aria-hidden="true"><path class="marker e{}" d="{shape}"/></svg>"#,
        style % 8
    )
}

/// The classes of an engine's colour and dash.
pub(super) fn classes(style: usize) -> String {
    format!("e{} d{}", style % 8, style % 5)
}

/// A coordinate, to a tenth.
fn format_coordinate(x: f64) -> String {
    let x = if x.is_finite() { x } else { 0.0 };
    let text = format!("{x:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
