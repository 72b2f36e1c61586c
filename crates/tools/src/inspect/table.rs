//! An inspection for people: a table, and what is worth knowing.

use std::fmt::{self, Display, Formatter};

use super::{ContentReport, Inspection, TopicReport};
use crate::report::counted;
use robocache_ops::time::Stamp;

/// The columns of the table.
pub(super) const HEAD: [&str; 9] = [
    "topic",
    "type",
    "messages",
    "rate [Hz]",
    "interval p1 p50 p99 [ms]",
    "gaps",
    "longest [ms]",
    "delay p50 p99 max [ms]",
    "qos",
];

/// Measure of intervals and gaps: `robocache view` counts those of a recording by another one.
pub(super) const MEASURE: &str = "Rate, intervals and gaps are those of header.stamp; if a type has no header, of the \
    arrivals. robocache view counts those of a recording by the arrivals.";

impl Display for Inspection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let first = Stamp::from_nanos(self.first_ns.unwrap_or(0));
        writeln!(f, "bag       {}", self.bag)?;
        writeln!(
            f,
            "recorded  {:.3} s from {first}, {}, {:.1} MB in {}",
            self.length_ns() as f64 / 1e9,
            counted(self.messages, "message", "messages"),
            self.bytes as f64 / 1e6,
            counted(self.files as u64, "file", "files")
        )?;
        if let Some(clock) = &self.clock {
            let [from, to] = [clock.first_ns, clock.last_ns].map(Stamp::from_nanos);
            writeln!(f, "clock     /clock from {from} to {to}")?;
        }
        writeln!(f)?;
        rows(f, &self.topics)?;
        let contents: Vec<String> = self.topics.iter().filter_map(content).collect();
        section(f, "contents", &contents)?;
        section(f, "frames", &self.frame_lines())?;
        section(f, "notes", &self.notes)?;
        let mut problems = self.problems.clone();
        if self.more_problems > 0 {
            problems.push(format!("and {} more like these", self.more_problems));
        }
        if !self.whole {
            problems.push("the command was stopped: the numbers are of the beginning alone".into());
        }
        section(f, "problems", &problems)
    }
}

impl Inspection {
    /// The tree of frames, a link per line.
    pub(super) fn frame_lines(&self) -> Vec<String> {
        let link = |link: &super::LinkReport| {
            let kind = if link.is_fixed { "fixed" } else { "moving" };
            format!(
                "{} -> {}  {kind}, {}",
                link.parents.join(", "),
                link.child,
                counted(link.transforms, "transform", "transforms")
            )
        };
        self.frames.links.iter().map(link).collect()
    }
}

fn section(f: &mut Formatter<'_>, name: &str, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{name}")?;
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}

fn rows(f: &mut Formatter<'_>, topics: &[TopicReport]) -> fmt::Result {
    let rows = topics.iter().map(row);
    let rows: Vec<_> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
    robocache_core::table::write(f, &rows)
}

/// The cells of a topic.
pub(super) fn row(topic: &TopicReport) -> [String; 9] {
    // The stamps are the sensor's own; arrivals scatter with the transport.
    let intervals = topic.stamped.as_ref().unwrap_or(&topic.received);
    let ms = |nanos: i64| {
        let ms = nanos as f64 / 1e6;
        if ms.abs() < 10_000.0 { format!("{ms:.1}") } else { format!("{ms:.2e}") }
    };
    let list = |all: &[i64]| all.iter().map(|nanos| ms(*nanos)).collect::<Vec<_>>().join(" ");
    let of = intervals.intervals;
    let latched = topic.offers.iter().any(super::Offer::is_latched);
    let mut words: Vec<&str> =
        topic.offers.iter().map(|offer| offer.reliability.as_str()).collect();
    words.dedup();
    if latched {
        words.push("latched");
    }
    [
        topic.name.clone(),
        topic.ros_type.clone(),
        topic.messages.to_string(),
        intervals.rate_hz.map_or_else(String::new, |rate| format!("{rate:.2}")),
        of.map_or_else(String::new, |of| list(&[of.p1_ns, of.p50_ns, of.p99_ns])),
        intervals.gaps.to_string(),
        of.map_or_else(String::new, |of| ms(of.max_ns)),
        topic.delay.map_or_else(String::new, |of| list(&[of.p50_ns, of.p99_ns, of.max_ns])),
        words.join(" "),
    ]
}

/// Contents of a topic's messages, in a line.
pub(super) fn content(topic: &TopicReport) -> Option<String> {
    let frames: Vec<&str> =
        topic.frame_ids.keys().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let frame = match frames[..] {
        [] => String::new(),
        _ => format!(", frame {}", frames.join(" ")),
    };
    let text = match topic.content.as_ref() {
        Some(ContentReport::Images(images)) => {
            let form = |form: &super::ImageForm| {
                format!("{} {}x{}", form.encoding, form.width, form.height)
            };
            images.forms.iter().map(form).collect::<Vec<_>>().join("; ")
        }
        Some(ContentReport::Clouds(clouds)) => {
            let fields: Vec<&str> = clouds.fields.iter().map(|field| field.name.as_str()).collect();
            let mut text = match clouds.points {
                [least, most] if least == most => counted(most as u64, "point", "points"),
                [least, most] => format!("{least} to {most} points"),
            };
            if !fields.is_empty() {
                text = format!("{text}, fields {}", fields.join(" "));
            }
            if let Some(time) = &clouds.time {
                let unit = time.unit_s.map_or_else(|| "?".into(), |unit| format!("{unit:e} s"));
                text = format!("{text}, times in {} (unit {unit})", time.name);
            }
            text
        }
        Some(ContentReport::Joints(joints)) => {
            let set = |set: &super::JointSet| {
                let joints = counted(set.names.len() as u64, "joint", "joints");
                format!("{joints}: {}", set.names.join(" "))
            };
            joints.sets.iter().map(set).collect::<Vec<_>>().join("; ")
        }
        Some(ContentReport::Camera(camera)) => {
            let lens = if camera.is_distorted { &camera.model } else { "no distortion" };
            format!("{}x{}, {lens}", camera.width, camera.height)
        }
        Some(ContentReport::Imu { without_orientation, .. }) if *without_orientation > 0 => {
            "no orientation".into()
        }
        Some(ContentReport::Numbers { paths, .. }) => {
            let path = |leaf: &robocache_core::schema::Leaf| match leaf.numbers {
                [1, 1] => leaf.path.clone(),
                [least, most] if least == most => format!("{}[{most}]", leaf.path),
                [usize::MAX, _] => leaf.path.clone(),
                [least, most] => format!("{}[{least} to {most}]", leaf.path),
            };
            paths.iter().take(12).map(path).collect::<Vec<_>>().join(" ")
        }
        Some(ContentReport::Imu { .. }) | None if frame.is_empty() => return None,
        Some(ContentReport::Imu { .. }) | None => frame.trim_start_matches(", ").to_owned(),
    };
    let frame = if text.starts_with("frame ") { String::new() } else { frame };
    (!text.is_empty()).then(|| format!("{}: {text}{frame}", topic.name))
}
