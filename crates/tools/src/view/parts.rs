//! The sections of a report about tensors.

use super::pictures::dims;
use super::track::{Break, Segment, StepValidity, Track};
use crate::report::{Histogram, Plot, Section, Table, Timeline, Tone, number, significant};
use robocache_core::encoder::kind;
use robocache_core::message::{SegmentInfo, TensorInfo};
use robocache_ops::align::NO_AGE;
use robocache_ops::time::Stamp;

/// Lines of a chart of curves: a reader cannot distinguish more.
const LINES: usize = 8;
/// Height of a chart of curves, and of one of ages \[px\].
const CURVES_PX: usize = 220;
const AGES_PX: usize = 130;
/// Most segments whose ages are drawn.
const MAX_AGES: usize = 40;

/// Seconds from one stamp to another.
fn seconds(stamp: Stamp, origin: Stamp) -> f64 {
    stamp.since(origin) as f64 / 1e9
}

/// Milliseconds.
fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// When which segment was valid, the ticks that are missing, and the numbers of it.
pub(super) fn validity(track: &Track) -> Section {
    let mut section = Section::new("Validity and ages");
    let origin = track.origin();
    let last = track.ticks.iter().map(|(_, stamp)| *stamp).max().unwrap_or(origin);
    let period_ns = track.info.as_ref().map_or(0, |info| info.period_ns);
    let end = seconds(last, origin) + period_ns as f64 / 1e9;
    let kinds = [
        ("valid", Tone::Good),
        ("valid, but not all steps", Tone::Series(0)),
        (StepValidity::NotValid.name(), Tone::Series(3)),
        (StepValidity::TooOld.name(), Tone::Notice),
        (StepValidity::NoRow.name(), Tone::Bad),
        ("no tensor", Tone::Quiet),
    ];
    let title = "which steps are valid, over time";
    let mut timeline = Timeline::new(title, "time [s]", (0.0, end.max(1e-9)), &kinds);
    let missing = missing(track, period_ns, origin);
    timeline.row("ticks", spans(track, origin, period_ns, |_| 0).chain(missing.iter().copied()));
    for segment in shown(track) {
        let kind = |at: usize| match segment.state[at] {
            StepValidity::Valid if (segment.valid_steps[at] as usize) < segment.steps() => 1,
            StepValidity::Valid => 0,
            StepValidity::NotValid => 2,
            StepValidity::TooOld => 3,
            StepValidity::NoRow => 4,
        };
        timeline.row(&segment.name, spans(track, origin, period_ns, kind));
    }
    section.figure(
        &timeline,
        "The present step of each segment. Where there is no colour, no tensor was looked at.",
    );
    section.table(&numbers(track));
    if !track.shares.is_empty() && track.breaks.iter().any(|broken| broken.unread) {
        section.text(
            "The valid steps are those of all ticks of the episode. The other columns are of the tensors that were \
             looked at.",
        );
    }
    ages(track, origin, &mut section);
    section
}

/// A span per run of ticks of the same kind.
fn spans<'a>(
    track: &'a Track,
    origin: Stamp,
    period_ns: i64,
    kind: impl Fn(usize) -> usize + 'a,
) -> impl Iterator<Item = (f64, f64, usize)> + 'a {
    let from = move |at: usize| seconds(track.ticks[at].1, origin);
    (0..track.ticks.len()).map(move |at| (from(at), from(at) + period_ns as f64 / 1e9, kind(at)))
}

/// The spans in which ticks have no tensor.
fn missing(track: &Track, period_ns: i64, origin: Stamp) -> Vec<(f64, f64, usize)> {
    let gap = |broken: &Break| {
        let [from, to] = [broken.at - 1, broken.at].map(|at| track.ticks[at].1);
        let from = from.offset(period_ns);
        let is_gap = !broken.unread && to > from;
        is_gap.then(|| (seconds(from, origin), seconds(to, origin), 5))
    };
    track.breaks.iter().filter_map(gap).collect()
}

/// A row per segment: valid share, ages, reasons.
fn numbers(track: &Track) -> Table {
    let mut head = vec!["segment", "valid steps", "age p50", "age p99", "age max"];
    let reasons = [StepValidity::NotValid, StepValidity::TooOld, StepValidity::NoRow];
    head.extend(reasons.map(StepValidity::name));
    let mut table = Table::new(&head);
    for segment in shown(track) {
        let ages = sorted_ages(segment);
        let quantile = |share: f64| match ages.len() {
            0 => "\u{2013}".to_owned(),
            len => format!("{} ms", number(ages[((len - 1) as f64 * share).round() as usize], 1)),
        };
        let share = track.valid_share(segment).map_or("\u{2013}".to_owned(), percent);
        let mut row =
            vec![segment.name.clone(), share, quantile(0.5), quantile(0.99), quantile(1.0)];
        let count = |state| segment.state.iter().filter(|found| **found == state).count();
        row.extend(reasons.map(|state| count(state).to_string()));
        table.row(&row);
    }
    table
}

/// A share in percent, which is 100 % only if it is all.
pub fn percent(share: f64) -> String {
    match share {
        1.0 => "100 %".to_owned(),
        _ => format!("{} %", number((100.0 * share).min(99.99), 2)),
    }
}

/// The ages of the valid present steps \[ms\], ordered.
fn sorted_ages(segment: &Segment) -> Vec<f64> {
    let valid = segment.age_ns.iter().zip(&segment.state);
    let valid = valid.filter(|(age, state)| **state == StepValidity::Valid && **age != NO_AGE);
    let mut ages: Vec<f64> = valid.map(|(age, _)| ms(*age)).collect();
    ages.sort_by(f64::total_cmp);
    ages
}

/// The ages of each stream over time and as a histogram.
fn ages(track: &Track, origin: Stamp, section: &mut Section) {
    section.heading(
        "Ages",
        "the target minus the stamp of the newest row used; below zero, that row is newer",
    );
    for segment in shown(track).take(MAX_AGES) {
        let ages = sorted_ages(segment);
        if ages.is_empty() {
            continue;
        }
        let name = &segment.name;
        let mut plot = Plot::new(&format!("age of {name} over time"), "time [s]", "age [ms]");
        let points = segment.target.iter().zip(&segment.age_ns).zip(&segment.state);
        let points = points.map(|((target, age), state)| {
            let age = if *state == StepValidity::Valid { ms(*age) } else { f64::NAN };
            (seconds(*target, origin), age)
        });
        plot.step("", track.with_gaps(points)).height(AGES_PX);
        let title = format!("ages of {name}");
        let mut histogram = Histogram::of(&title, "age [ms]", "ticks", &ages);
        histogram.height(AGES_PX);
        section.pair([((&plot).into(), name.clone()), ((&histogram).into(), String::new())]);
    }
}

/// The segments without those that only repeat the steps of another: the coordinates of a sparse grid.
pub(super) fn shown(track: &Track) -> impl Iterator<Item = &Segment> {
    let info = |segment: &Segment| track.info.as_ref().and_then(|info| info.segment(&segment.name));
    let repeats = move |segment: &&Segment| {
        info(segment).is_some_and(|info| info.encoder == kind::VOXEL_COORDINATES)
    };
    track.segments.iter().filter(move |segment| !repeats(segment))
}

/// The curves of every segment of vectors, a chart per kind of channel.
pub(super) fn curves(tracks: &[Track]) -> Section {
    let mut section = Section::new("Curves");
    let each = tracks.iter().flat_map(Track::each);
    for (track, segment) in each.filter(|(_, segment)| segment.curves > 0) {
        let origin = track.origin();
        let info = track.info.as_ref().and_then(|info| info.segment(&segment.name));
        let names = channel_names(segment, info);
        if section.is_empty() {
            section.text(match track.rows_from {
                None => {
                    "The present step of each tensor at its target time. In a gap the step is not valid, or no tensor \
                     was looked at."
                }
                Some(_) => "The rows at their own stamps.",
            });
        }
        section.heading(&segment.name, &describe(segment, info));
        for (label, channels) in groups(&names) {
            for shown in channels.chunks(LINES) {
                let unit = info.map_or("", |info| info.unit(shown[0]));
                let label =
                    if unit.is_empty() { label.clone() } else { format!("{label} [{unit}]") };
                let title = format!("{}: {label}", segment.name);
                let mut plot = Plot::new(&title, "time [s]", &label);
                plot.height(CURVES_PX);
                for channel in shown {
                    let curve = segment.curve(*channel, origin);
                    plot.line(&names[*channel], track.with_gaps(curve));
                }
                section.figure(&plot, "");
            }
        }
        let all: usize = segment.shape[1..].iter().product();
        if all > segment.curves {
            section.text(&format!("{} more channels are not shown.", all - segment.curves));
        }
    }
    section
}

/// The names of a segment's first channels.
pub(super) fn channel_names(segment: &Segment, info: Option<&SegmentInfo>) -> Vec<String> {
    let name = |at: usize| info.and_then(|info| info.channels.get(at).cloned());
    (0..segment.curves).map(|at| name(at).unwrap_or_else(|| format!("channel {at}"))).collect()
}

/// Quantities of a joint: such channels belong together, whatever the joint.
const OF_JOINTS: [&str; 7] =
    ["position", "velocity", "effort", "positions", "velocities", "accelerations", "acceleration"];

/// The channels that belong on one axis: of all joints the same, or the parts of the same vector.
pub(super) fn groups(names: &[String]) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let label = match name.rsplit_once('.') {
            Some((_, field)) if OF_JOINTS.contains(&field) => field,
            Some((vector, _)) => vector,
            None => "value",
        };
        match groups.iter_mut().find(|(other, _)| other == label) {
            Some((_, channels)) => channels.push(at),
            None => groups.push((label.to_owned(), vec![at])),
        }
    }
    groups
}

/// Shape, type and topics, in a line.
pub(super) fn describe(segment: &Segment, info: Option<&SegmentInfo>) -> String {
    let mut text = format!("{} {}", dims(&segment.shape), segment.dtype);
    for topic in info.iter().flat_map(|info| &info.topics) {
        text = text + ", " + topic;
    }
    text
}

/// Section of the places and meanings of all segments.
pub(super) fn layout(track: &Track) -> Section {
    let mut section = Section::new("Layout of the tensor");
    if track.segments.is_empty() {
        return section;
    }
    let parts: Vec<_> =
        track.segments.iter().map(|segment| (&segment.name, segment.place.1 as u64)).collect();
    section.shares("the parts of the tensor", &parts);
    let head = [
        "segment",
        "encoder",
        "strategy",
        "type",
        "shape (steps first)",
        "lag",
        "max age",
        "byte offset",
        "bytes",
    ];
    let mut table = Table::new(&head).texts(5).keys();
    for segment in &track.segments {
        let info = track.info.as_ref().and_then(|info| info.segment(&segment.name));
        let of = |text: &dyn Fn(&SegmentInfo) -> String| info.map_or("\u{2013}".into(), text);
        let in_ms = |ns: i64| format!("{} ms", significant(ms(ns), 4));
        table.row(&[
            segment.name.clone(),
            of(&|info| info.encoder.clone()),
            of(&|info| info.strategy.clone()),
            segment.dtype.to_owned(),
            dims(&segment.shape),
            of(&|info| in_ms(info.lag_ns)),
            of(&|info| in_ms(info.max_age_ns)),
            if track.packed { segment.place.0.to_string() } else { "\u{2013}".to_owned() },
            segment.place.1.to_string(),
        ]);
    }
    section.table(&table);
    if let Some(TensorInfo { config, config_file, version, .. }) = &track.info {
        section.details(&format!("Configuration: {config_file} (robocache {version})"), config);
    }
    section
}

#[cfg(test)]
mod tests;
