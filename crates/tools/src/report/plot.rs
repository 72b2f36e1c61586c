//! Curves over a common axis.

use std::fmt::Write;

use super::COLUMNS;
use super::chart::{COLOURS, Figure, Frame, Height, legend};
use super::html::escaped;
use super::scale::{padded, range};
use super::thin::{Point, runs};

/// Most series of a plot: a reader cannot distinguish more.
const MAX_SERIES: usize = 2 * COLOURS;

/// Lines, steps and dots over a common axis.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    labels: [String; 2],
    x: Option<(f64, f64)>,
    y: Option<(f64, f64)>,
    height_px: usize,
    series: Vec<Series>,
    marks: Vec<(String, f64)>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    kind: Kind,
    colour: usize,
    points: Vec<Point>,
}

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Line,
    Step,
    /// Their diameter \[px\].
    Dots(f64),
}

impl Plot {
    /// An empty plot. The title is for screen readers; the labels are those of the axes, with units.
    pub fn new(title: &str, x_label: &str, y_label: &str) -> Self {
        Plot {
            title: title.to_owned(),
            labels: [x_label, y_label].map(str::to_owned),
            x: None,
            y: None,
            height_px: 240,
            series: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// The range of x; by default that of all points.
    pub fn x_range(&mut self, low: f64, high: f64) -> &mut Self {
        self.x = Some((low, high));
        self
    }

    /// The range of y; by default that of all points, and a little more.
    pub fn y_range(&mut self, low: f64, high: f64) -> &mut Self {
        self.y = Some((low, high));
        self
    }

    /// How tall the plot is \[px\]: by default 240.
    pub fn height(&mut self, px: usize) -> &mut Self {
        self.height_px = px;
        self
    }

    /// Adds a line through points (x, y), ordered by x. A y that is not finite is a gap.
    pub fn line(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> &mut Self {
        self.series(name, Kind::Line, points)
    }

    /// Adds a line whose value holds until the next point.
    pub fn step(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> &mut Self {
        self.series(name, Kind::Step, points)
    }

    /// Adds dots of this diameter \[px\], ordered by x.
    pub fn dots(
        &mut self,
        name: &str,
        diameter: f64,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> &mut Self {
        self.series(name, Kind::Dots(diameter), points)
    }

    /// Gives the newest series the colour of the one of this name, as dots on a line have.
    pub fn like(&mut self, name: &str) -> &mut Self {
        let colour = self.series.iter().find(|other| other.name == name).map(|other| other.colour);
        if let (Some(series), Some(colour)) = (self.series.last_mut(), colour) {
            series.colour = colour;
        }
        self
    }

    /// Adds a vertical line with a name.
    pub fn mark(&mut self, name: &str, x: f64) -> &mut Self {
        self.marks.push((name.to_owned(), x));
        self
    }

    fn series(
        &mut self,
        name: &str,
        kind: Kind,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> &mut Self {
        let colour = self.series.iter().map(|other| other.colour + 1).max().unwrap_or(0);
        if self.series.len() < MAX_SERIES {
            let points = points.into_iter().collect();
            self.series.push(Series { name: name.to_owned(), kind, colour, points });
        }
        self
    }

    fn draw(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = self.x.unwrap_or_else(|| {
            let range = range(points().filter(|(_, y)| y.is_finite()).map(|(x, _)| *x));
            padded(range, 0.0)
        });
        let inside = points().filter(|(at, _)| (x.0..=x.1).contains(at));
        let y = self.y.unwrap_or_else(|| padded(range(inside.map(|(_, y)| *y)), 0.06));
        let [x_label, y_label] = &self.labels;
        let frame = Frame {
            title: &self.title,
            labels: [x_label, y_label],
            x,
            y,
            height: Height::Px(self.height_px),
        };
        let svg: String = self.series.iter().map(|series| series.path(&frame)).collect();
        let (lines, names) = marks(&frame, &self.marks);
        let named = self.series.iter().filter(|series| !series.name.is_empty());
        let named: Vec<_> = named.map(|series| (&*series.name, series.key())).collect();
        let legend = if named.is_empty() { String::new() } else { legend(named.into_iter()) };
        legend + &frame.html(&(svg + &lines), &names)
    }
}

impl Series {
    fn class(&self) -> String {
        let dash = if self.colour >= COLOURS { " dash" } else { "" };
        format!("c{}{dash}", self.colour % COLOURS)
    }

    /// The class of its key in the legend.
    fn key(&self) -> String {
        let shape = if matches!(self.kind, Kind::Dots(_)) { "dot" } else { "stroke" };
        format!("{shape} b{}", self.colour % COLOURS)
    }

    fn path(&self, frame: &Frame<'_>) -> String {
        let placed = self.points.iter().map(|(x, y)| (frame.x(*x), frame.y(*y)));
        let mut d = String::new();
        for run in runs(placed, COLUMNS) {
            for (at, (x, y)) in run.iter().enumerate() {
                let _ = match (self.kind, at) {
                    // A line of no length has round ends, so one path holds all dots.
                    (Kind::Dots(_), _) => write!(d, "M{x:.1} {y:.1}h0"),
                    (_, 0) => write!(d, "M{x:.1} {y:.1}"),
                    (Kind::Line, _) => write!(d, "L{x:.1} {y:.1}"),
                    (Kind::Step, _) => write!(d, "H{x:.1}V{y:.1}"),
                };
            }
            // A single point has no line.
            if run.len() == 1 && !matches!(self.kind, Kind::Dots(_)) {
                d.push_str("h1");
            }
        }
        let class = self.class();
        match self.kind {
            _ if d.is_empty() => String::new(),
            Kind::Dots(diameter) => {
                format!("<path class=\"dots {class}\" stroke-width=\"{diameter:.1}\" d=\"{d}\"/>")
            }
            Kind::Line | Kind::Step => format!("<path class=\"line {class}\" d=\"{d}\"/>"),
        }
    }
}

/// Vertical lines in a chart, and their names over it. Those outside the range are left out.
pub(super) fn marks(frame: &Frame<'_>, marks: &[(String, f64)]) -> (String, String) {
    let mut lines = String::new();
    let mut names = String::new();
    let inside = marks.iter().filter(|(_, x)| (frame.x.0..=frame.x.1).contains(x));
    for (row, (name, x)) in inside.enumerate() {
        let at = frame.x(*x);
        let _ = write!(lines, "<path class=mark d=\"M{at:.1} 0V{}\"/>", frame.units());
        let percent = 100.0 * at / COLUMNS as f64;
        let (side, from) =
            if percent > 55.0 { ("right", 100.0 - percent) } else { ("left", percent) };
        let top = 4 + 17 * row;
        let name = escaped(name);
        let _ = write!(
            names,
            "<span class=name style=\"{side}:calc({from:.2}% + 6px);top:{top}px\">{name}</span>"
        );
    }
    (lines, names)
}

impl From<&Plot> for Figure {
    fn from(plot: &Plot) -> Self {
        Figure::of(plot.draw())
    }
}
