//! The constant latency of a stream against another, by how much each of them moves.
//!
//! 1. [`motion`] reads how fast a topic changes: joints, rates of an IMU or a twist, images.
//! 2. [`pair`] brings both to the same stretches of time, at any offset.
//! 3. [`correlate`] finds the offset at which they are most alike, and how certain it is.
//!
//! The result is right if both see the same motion, and if the offset is constant.

mod correlate;
mod motion;
mod pair;

use serde::Serialize;

use super::inspect::{Inspection, Starter, inspect_some};
use correlate::{Curve, Resampled, STEP_MS, STEP_NS, Shift};
use motion::{Motion, Piece};
use pair::Pair;
use robocache_core::schema::Definitions;
use robocache_core::spec::{Config, InputSpec, Timeline};
use robocache_data::bag::{Bag, BagError};
use robocache_data::replay::{BagDefinitions, Progress, ReplayError};
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};

/// Shortest time in which both streams must be there \[ns\].
const SHORTEST_NS: i64 = 10 * NANOS_PER_S;
/// A second peak that is this high in relation to the first makes the result ambiguous.
const SECOND_PEAK: f64 = 0.9;
/// For the search: least length of the stretches over which motions are averaged, and the time over which their
/// mean is subtracted \[ns\].
const SEARCH_WINDOW_NS: i64 = 40 * NANOS_PER_MS;
const SEARCH_TREND_NS: i64 = NANOS_PER_S;
/// Lengths of the stretches and times of the mean for the exact offset, as for the search \[ns\]. Fast changes tell most;
/// with noise, slower ones tell more.
const WAYS_NS: [[i64; 2]; 4] = [
    [0, NANOS_PER_S / 2],
    [100 * NANOS_PER_MS, NANOS_PER_S / 2],
    [0, NANOS_PER_S],
    [100 * NANOS_PER_MS, NANOS_PER_S],
];
/// Steps to each side of the rough offset in which the exact one is.
const NEAR: usize = 60;
/// Least correlation of two streams that see the same motion.
const LEAST_CORRELATION: f64 = 0.2;
/// A correlation must be this many standard errors of one by chance.
const LEAST_SIGMAS: f64 = 4.0;
/// Widest half of the interval that a result may have \[ms\].
const WIDEST_MS: f64 = 20.0;
/// The offset changes if its halves differ by this many standard errors.
const DRIFT_SIGMAS: f64 = 4.0;

/// Options of a calibration: the streams, and how far to search.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
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
    /// Motions that were compared: of the reference, of the stream.
    pub motion: [&'static str; 2],
    /// The offset: what must be added to the stream's stamps as they are now \[ms\].
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
    /// True if the two halves differ by more than they could by chance.
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
    /// A missing stream, or one that shows no motion.
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
/// [`CalibrateError`]: why the offset cannot be found.
pub fn calibrate(
    bag: &Bag,
    config: Option<&Config>,
    options: &CalibrateOptions,
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
    options: &CalibrateOptions,
    progress: &dyn Progress,
) -> Result<[InputSpec; 2], CalibrateError> {
    let definitions = BagDefinitions::new(bag)?;
    let of = |name: &String| -> Result<InputSpec, CalibrateError> {
        let wrong = |why: String| CalibrateError::Stream { name: name.clone(), why };
        let known = config.map_or(Ok(None), |config| configured(config, name));
        if let Some(input) = known.map_err(wrong)? {
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

/// The input of a configuration that a name means: a stream with one input, or a topic.
///
/// # Errors
/// It could be several, whose stamps may be late by different times.
fn configured(config: &Config, name: &str) -> Result<Option<InputSpec>, String> {
    let inputs = || config.inputs.iter().filter(|input| input.stream.is_some());
    let is_stream =
        |input: &&InputSpec| input.stream.is_some_and(|stream| config.stream(stream).name == name);
    let of_stream: Vec<&InputSpec> = inputs().filter(is_stream).collect();
    if let [first, rest @ ..] = &of_stream[..] {
        let mut topics: Vec<&str> = vec![&first.topic];
        topics.extend(rest.iter().map(|input| input.topic.as_str()));
        topics.dedup();
        return match topics[..] {
            [_] => Ok(Some((*first).clone())),
            _ => Err(format!(
                "expected one input, found the stream's {}: name one of these topics",
                topics.join(", ")
            )),
        };
    }
    let mut of_topic = inputs().filter(|input| input.topic == name);
    let Some(first) = of_topic.next() else { return Ok(None) };
    let same = |other: &InputSpec| {
        (other.stamp_offset_ns, other.timeline) == (first.stamp_offset_ns, first.timeline)
    };
    match of_topic.find(|other| !same(other)) {
        None => Ok(Some(first.clone())),
        Some(other) => Err(format!(
            "expected one offset, found that of {} and another one of {}: name the stream",
            first.name, other.name
        )),
    }
}

/// Finds the offset between two motions.
///
/// # Errors
/// Why it cannot be found.
fn compare(pieces: [&[Piece]; 2], most_ns: i64) -> Result<Calibration, String> {
    let span = |pieces: &[Piece]| Some((pieces.first()?.from, pieces.last()?.to));
    let spans = [span(pieces[0]), span(pieces[1])];
    let [Some(a), Some(b)] = spans else { return Err("a stream has no messages".into()) };
    let common_ns = a.1.min(b.1).since(a.0.max(b.0));
    if common_ns < SHORTEST_NS {
        let seconds = common_ns.max(0) as f64 / 1e9;
        return Err(format!("expected both for at least 10 s, found {seconds:.1} s"));
    }
    let most = usize::try_from(most_ns / STEP_NS).unwrap_or(0).max(2);
    let roughly = search(pieces, most)?;
    // How much noise there is says how much smoothing is best. The interval tells.
    let results = WAYS_NS
        .map(|[window_ns, trend_ns]| refine(&Pair::new(pieces, window_ns, trend_ns), &roughly));
    let mut results: Vec<Calibration> = results.into_iter().flatten().collect();
    results.sort_by(|a, b| a.uncertainty_ms.total_cmp(&b.uncertainty_ms));
    if let Some(best) = results.iter().find(|found| found.sigmas >= LEAST_SIGMAS) {
        let known_ms = best.uncertainty_ms;
        return match known_ms <= WIDEST_MS {
            true => Ok(best.clone()),
            false => Err(format!(
                "{:.1} ms, but that is known to {known_ms:.0} ms only; record for longer, with more starts and stops",
                best.offset_ms
            )),
        };
    }
    let likeliest = results.iter().max_by(|a, b| a.sigmas.total_cmp(&b.sigmas));
    let [height, sigmas] =
        likeliest.map_or([roughly.height, 0.0], |found| [found.correlation, found.sigmas]);
    Err(unlike(height, sigmas))
}

/// Why there is no offset of streams that may see different motions.
fn unlike(height: f64, sigmas: f64) -> String {
    format!(
        "expected two streams that see the same motion, found a correlation of {height:.2}, which is {sigmas:.1} \
         times what chance gives; move more, with stops, in view of both"
    )
}

/// Rough offset at which two streams are most alike, by far.
struct Roughly {
    offset_ms: f64,
    height: f64,
}

/// Looks for the offset among all that are sought. Slow changes count too: they tell apart what repeats.
fn search(pieces: [&[Piece]; 2], most: usize) -> Result<Roughly, String> {
    let pair = Pair::new(pieces, SEARCH_WINDOW_NS, SEARCH_TREND_NS);
    if let Some(at) = pair.still() {
        let which = ["the reference", "the stream"][at];
        return Err(format!(
            "{which} does not move, or always by as much; move it, and stop at times"
        ));
    }
    let curve = Curve::new(&pair, 0, most);
    let r = curve.correlations();
    let best = Shift::best(&r);
    let height = best.height;
    let offset_ms = curve.ms(&best);
    if height < LEAST_CORRELATION {
        let offset_ns = (offset_ms * NANOS_PER_MS as f64) as i64;
        return Err(unlike(height, height / correlate::chance(&pair, offset_ns)));
    }
    if best.is_at_edge(&r) {
        return Err(format!(
            "the streams are most alike at the end of the search, {offset_ms:.0} ms; try a larger --max-offset-ms \
             than {:.0}",
            STEP_MS * most as f64
        ));
    }
    if let Some(second) = best.second(&r, SECOND_PEAK) {
        return Err(format!(
            "it is ambiguous: the streams are alike at {offset_ms:.0} ms and, {:.0} % as much, at {:.0} ms, as in \
             periodic motion; move irregularly, or give a smaller --max-offset-ms",
            100.0 * second.height / height,
            curve.ms(&second)
        ));
    }
    Ok(Roughly { offset_ms, height })
}

/// Finds the offset exactly, near the rough one; `None` if it is not found there.
fn refine(pair: &Pair, roughly: &Roughly) -> Option<Calibration> {
    let middle = (roughly.offset_ms / STEP_MS).round() as i64;
    let curve = Curve::new(pair, middle, NEAR);
    let r = curve.correlations();
    let best = Shift::best(&r);
    if best.is_at_edge(&r) {
        return None;
    }
    let offset_ms = curve.ms(&best);
    let chance = correlate::chance(pair, (offset_ms * NANOS_PER_MS as f64) as i64);
    let Resampled { error, interval } = curve.bootstrap();
    let halves_ms = curve.halves().map(|r| curve.ms(&Shift::best(&r)));
    // Each half has half of the data.
    let apart = (halves_ms[0] - halves_ms[1]).abs();
    let drifts = apart > DRIFT_SIGMAS * 2.0 * error * STEP_MS && apart > STEP_MS / 2.0;
    Some(Calibration {
        reference: String::new(),
        stream: String::new(),
        motion: [""; 2],
        offset_ms,
        uncertainty_ms: interval * STEP_MS,
        standard_error_ms: error * STEP_MS,
        stamp_offset_ms: 0.0,
        correlation: best.height,
        sigmas: best.height / chance,
        seconds: curve.pairs() as f64 * pair.usual_ns as f64 / NANOS_PER_S as f64,
        halves_ms,
        drifts,
    })
}

/// True if the stamps of an input are those of the arrivals.
fn by_arrival(input: &InputSpec) -> bool {
    input.timeline == Timeline::Receive
}

#[cfg(test)]
mod tests;
