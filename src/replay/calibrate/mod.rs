//! The constant latency of a stream against another, by how much each of them moves.
//!
//! 1. [`motion`] reads how fast a topic changes: joints, rates of an IMU or a twist, images.
//! 2. [`grid`] brings both to the same cells of time, smoothed by the same symmetric window.
//! 3. [`correlate`] finds the shift at which they are most alike, and how certain it is.
//!
//! The result is right if both see the same motion, and if the offset is constant.

mod correlate;
mod grid;
mod motion;

use serde::Serialize;

use super::bag::{Bag, BagError};
use super::inspect::{Inspection, Starter, inspect_some};
use super::{BagDefinitions, Progress, ReplayError};
use crate::schema::Definitions;
use crate::spec::{Config, InputSpec, Timeline};
use crate::time::{NANOS_PER_MS, NANOS_PER_S};
use correlate::{Curve, Shift};
use grid::Grid;
use motion::{Motion, Piece};

/// Shortest time in which both streams must be there \[ns\].
const SHORTEST_NS: i64 = 10 * NANOS_PER_S;
/// Widest cell is chosen so that there are at most this many.
const MOST_CELLS: i64 = 300_000;
/// Narrowest cell \[ns\].
const CELL_NS: i64 = 2 * NANOS_PER_MS;
/// A second peak that is this high in relation to the first makes the result ambiguous.
const SECOND_PEAK: f64 = 0.9;
/// Least correlation of two streams that see the same motion.
const LEAST_CORRELATION: f64 = 0.2;
/// A correlation must be this many standard errors of one by chance.
const LEAST_SIGMAS: f64 = 4.0;
/// Widest half of the interval that a result may have \[ms\].
const WIDEST_MS: f64 = 20.0;
/// The offset changes if its halves differ by this many standard errors.
const DRIFT_SIGMAS: f64 = 4.0;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Options {
    /// The stream whose stamps are right: a topic, or a stream of the configuration.
    pub reference: String,
    /// The stream whose offset is sought.
    pub stream: String,
    /// The largest offset that is sought \[ns\].
    pub most_ns: i64,
}

/// The offset of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// The topic of the reference.
    pub reference: String,
    /// The topic of the stream.
    pub stream: String,
    /// What of each was compared: of the reference, of the stream.
    pub motion: [&'static str; 2],
    /// What must be added to the stream's stamps as they are now \[ms\].
    pub offset_ms: f64,
    /// Half of the interval that has the true offset with 95 % \[ms\].
    pub uncertainty_ms: f64,
    /// The standard error of the offset \[ms\].
    pub standard_error_ms: f64,
    /// `stamp_offset_ms` of the configuration: the offset, and what was there before \[ms\].
    pub stamp_offset_ms: f64,
    /// The correlation at the offset.
    pub correlation: f64,
    /// The correlation as a multiple of what chance would give.
    pub sigmas: f64,
    /// Seconds in which both streams were there.
    pub seconds: f64,
    /// The offsets of the first and the second half of the recording \[ms\].
    pub halves_ms: [f64; 2],
    /// Whether these differ by more than they could by chance.
    pub drifts: bool,
}

/// Why there is no offset.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The bag cannot be read.
    #[error(transparent)]
    Bag(#[from] BagError),
    /// The bag cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A stream that is not there, or that says nothing of motion.
    #[error("{name}: {why}")]
    Stream {
        /// As it was given.
        name: String,
        /// Why.
        why: String,
    },
    /// The streams do not tell it.
    #[error("no offset of {stream} against {reference}: {why}")]
    Unknown {
        /// The reference.
        reference: String,
        /// The stream.
        stream: String,
        /// Why, and what to do.
        why: String,
    },
}

/// Finds the offset of a stream in a bag. With a configuration, streams may be named, and its joints, selections,
/// timelines and offsets count.
///
/// # Errors
/// [`CalibrateError`]: why the offset cannot be told.
pub fn calibrate(
    bag: &Bag,
    config: Option<&Config>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Calibration, CalibrateError> {
    let inputs = find(bag, config, options, progress)?;
    let motions = motion::read(bag, &inputs, progress)?;
    let [reference, stream] = &motions;
    let mut found =
        compare([&reference.pieces, &stream.pieces], options.most_ns).map_err(|why| {
            let [reference, stream] = inputs.each_ref().map(|input| input.topic.clone());
            let lacks = motions.iter().find_map(Motion::problem);
            CalibrateError::Unknown { reference, stream, why: lacks.unwrap_or(why) }
        })?;
    found.reference.clone_from(&inputs[0].topic);
    found.stream.clone_from(&inputs[1].topic);
    found.motion = [reference.what, stream.what];
    let before_ms = inputs[1].stamp_offset_ns as f64 / NANOS_PER_MS as f64;
    found.stamp_offset_ms = (100.0 * (found.offset_ms + before_ms)).round() / 100.0;
    Ok(found)
}

/// The inputs of both streams.
fn find(
    bag: &Bag,
    config: Option<&Config>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<[InputSpec; 2], CalibrateError> {
    let definitions = BagDefinitions::new(bag)?;
    let of = |name: &String| -> Result<InputSpec, CalibrateError> {
        let wrong = |why: String| CalibrateError::Stream { name: name.clone(), why };
        if let Some(input) = config.and_then(|config| configured(config, name)) {
            return match bag.topic(&input.topic) {
                Some(at) if bag.topics[at].ros_type == input.ros_type => Ok(input),
                Some(at) => Err(wrong(format!(
                    "expected messages of {} on {}, found {}",
                    input.ros_type, input.topic, bag.topics[at].ros_type
                ))),
                None => Err(wrong(format!("the bag has no topic {}", input.topic))),
            };
        }
        let Some(at) = bag.topic(name) else {
            let topics: Vec<&str> = bag.topics.iter().map(|topic| topic.name.as_str()).collect();
            return Err(wrong(format!(
                "expected a topic of the bag, one of {}",
                topics.join(", ")
            )));
        };
        let wanted: Vec<bool> = (0..bag.topics.len()).map(|topic| topic == at).collect();
        let found: Inspection = inspect_some(bag, &wanted, progress)?;
        let definitions: &dyn Definitions = &definitions;
        Starter::input(&found, name, definitions).map_err(wrong)
    };
    Ok([of(&options.reference)?, of(&options.stream)?])
}

/// The first input of a stream of a configuration, or that of a topic.
fn configured(config: &Config, name: &str) -> Option<InputSpec> {
    let is_stream =
        |input: &&InputSpec| input.stream.is_some_and(|stream| config.stream(stream).name == name);
    let is_topic = |input: &&InputSpec| input.stream.is_some() && input.topic == name;
    let inputs = || config.inputs.iter();
    inputs().find(is_stream).or_else(|| inputs().find(is_topic)).cloned()
}

/// Finds the offset between two motions.
///
/// # Errors
/// Why it cannot be told.
fn compare(pieces: [&[Piece]; 2], most_ns: i64) -> Result<Calibration, String> {
    let span = |pieces: &[Piece]| Some((pieces.first()?.from, pieces.last()?.to));
    let spans = [span(pieces[0]), span(pieces[1])];
    let [Some(a), Some(b)] = spans else { return Err("a stream has no messages".into()) };
    let (first, last) = (a.0.min(b.0), a.1.max(b.1));
    let common_ns = a.1.min(b.1).since(a.0.max(b.0));
    if common_ns < SHORTEST_NS {
        let seconds = common_ns.max(0) as f64 / 1e9;
        return Err(format!("expected both for at least 10 s, found {seconds:.1} s"));
    }
    let cell_ns = CELL_NS.max(last.since(first) / MOST_CELLS);
    let [one, other] = pieces.map(|pieces| Grid::new(pieces, first, last, cell_ns));
    let window = one.usual_ns.max(other.usual_ns).max(2 * cell_ns);
    let grids = [one, other].map(|grid| grid.prepared(window));
    if let Some(at) = grids.iter().position(|grid| !grid.moves()) {
        let which = ["the reference", "the stream"][at];
        return Err(format!(
            "{which} does not move, or always by as much; move it, and stop at times"
        ));
    }
    let most = usize::try_from(most_ns / cell_ns).unwrap_or(0).max(2);
    let curve = Curve::new(&grids[0], &grids[1], most);
    judge(&curve, &grids, window, cell_ns)
}

fn judge(
    curve: &Curve,
    grids: &[Grid; 2],
    window: i64,
    cell_ns: i64,
) -> Result<Calibration, String> {
    let cell_ms = cell_ns as f64 / NANOS_PER_MS as f64;
    let reach = usize::try_from(window / cell_ns / 2).unwrap_or(2).clamp(2, 20);
    let r = curve.correlations();
    let best = Shift::best(&r, reach);
    let sigmas = best.height / correlate::chance(grids, cell_ns);
    let height = best.height;
    if height < LEAST_CORRELATION || sigmas < LEAST_SIGMAS {
        return Err(format!(
            "expected two streams that see the same motion, found a correlation of {height:.2}, which is {sigmas:.1} \
             times what chance gives; move more, with stops, in view of both"
        ));
    }
    let most_ms = cell_ms * (r.len() / 2) as f64;
    if best.is_at_edge(&r) {
        return Err(format!(
            "the streams are most alike at the end of the search, {:.0} ms; try a larger --max-offset-ms \
             than {most_ms:.0}",
            best.cells * cell_ms
        ));
    }
    if let Some(second) = best.second(&r, SECOND_PEAK) {
        return Err(format!(
            "it is ambiguous: the streams are alike at {:.0} ms and, {:.0} % as much, at {:.0} ms, as in periodic \
             motion; move irregularly, or give a smaller --max-offset-ms",
            best.cells * cell_ms,
            100.0 * second.height / height,
            second.cells * cell_ms
        ));
    }
    let spread = curve.bootstrap(reach);
    let [error_ms, uncertainty_ms] = spread.map(|cells| cells * cell_ms);
    if uncertainty_ms > WIDEST_MS {
        return Err(format!(
            "{:.1} ms, but that is known to {uncertainty_ms:.0} ms only; record for longer, with more starts and stops",
            best.cells * cell_ms
        ));
    }
    let halves_ms = curve.halves().map(|r| Shift::best(&r, reach).cells * cell_ms);
    // Each half has half of the data.
    let apart = (halves_ms[0] - halves_ms[1]).abs();
    let drifts = apart > DRIFT_SIGMAS * 2.0 * error_ms && apart > cell_ms / 2.0;
    Ok(Calibration {
        reference: String::new(),
        stream: String::new(),
        motion: [""; 2],
        offset_ms: best.cells * cell_ms,
        uncertainty_ms,
        standard_error_ms: error_ms,
        stamp_offset_ms: 0.0,
        correlation: height,
        sigmas,
        seconds: curve.pairs() as f64 * cell_ns as f64 / NANOS_PER_S as f64,
        halves_ms,
        drifts,
    })
}

/// Whether the stamps of an input are those of the arrivals.
fn by_arrival(input: &InputSpec) -> bool {
    input.timeline == Timeline::Receive
}

#[cfg(test)]
mod tests;
