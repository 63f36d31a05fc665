//! Builder of a figure: shapes, their classes, and a description for screen readers.
//!
//! The style sheet defines colours, dashes and fonts; a figure only names classes. `e0` to `e7` are
//! the colours of engines, `d0` to `d4` their dashes; `marker` is one of seven shapes. 8, 5 and 7
//! have no common divisor, so engines of the same colour differ in dash and shape.

use std::fmt::{Display, Write};

use super::text::escape;

/// Width of every figure: one column on a desktop, the full width of a phone.
pub(super) const WIDTH: f64 = 360.0;

/// A figure under construction.
pub(super) struct Svg {
    id: String,
    title: String,
    body: String,
}

/// Part of a text that is at its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Creates a figure; `id` is unique in the page.
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

    /// Draws an engine's marker.
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

    /// Adds a region with the tooltip `tip`. A region of the class `curve` shows a hairline.
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

    /// Finishes the figure. `description` tells its contents in words.
    pub(super) fn finish(self, height: f64, description: &str) -> String {
        let Svg { id, title, body } = self;
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{body}</svg>"#,
            format_coordinate(height),
            escape(&title),
            escape(description),
        )
    }

    fn add(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing to a String never fails.
        let _ = self.body.write_fmt(shape);
    }
}

/// Path of a pen.
#[derive(Default)]
pub(super) struct Path(String);

impl Path {
    /// Moves the pen to `to` without drawing.
    pub(super) fn move_to(&mut self, to: (f64, f64)) -> &mut Path {
        self.push_command('M', to)
    }

    /// Draws a line to `to`.
    pub(super) fn line_to(&mut self, to: (f64, f64)) -> &mut Path {
        self.push_command('L', to)
    }

    /// Draws a line back to the start of the path.
    pub(super) fn close(&mut self) {
        self.0.push('Z');
    }

    fn push_command(&mut self, command: char, (x, y): (f64, f64)) -> &mut Path {
        // Writing to a String never fails.
        let _ = write!(self.0, "{command}{} {}", format_coordinate(x), format_coordinate(y));
        self
    }
}

/// One of seven shapes, about 7 units wide.
fn marker(style: usize, (x, y): (f64, f64)) -> Path {
    static SHAPES: [&[(f64, f64)]; 7] = [
        // Octagon, square, triangle, diamond, inverted triangle, cross, plus.
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

/// The marker as a separate picture, for tables and headings.
pub(super) fn icon(style: usize) -> String {
    let shape = marker(style, (6.0, 6.0)).0;
    format!(
        r#"<svg class="icon" viewBox="0 0 12 12" aria-hidden="true"><path class="marker e{}" d="{shape}"/></svg>"#,
        style % 8
    )
}

/// Classes of an engine's colour and dash.
pub(super) fn classes(style: usize) -> String {
    format!("e{} d{}", style % 8, style % 5)
}

/// A coordinate, rounded to a tenth.
fn format_coordinate(x: f64) -> String {
    let x = if x.is_finite() { x } else { 0.0 };
    let text = format!("{x:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
