//! Vectors of a bag, beside the tensors that were made of it.
//!
//! The bag's messages go through the inputs and encoders of the configuration, as in a replay. Their rows have the
//! units of the tensor, and they are at their own stamps.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::parts::{channel_names, groups};
use super::raw::{self, Compared, MAX_CURVES};
use super::source::{self, ViewError};
use super::track::{Segment, Track};
use crate::report::Section;
use robocache_core::backend::{self, Choice};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::{SegmentInfo, TensorMessage};
use robocache_core::pipeline::{LeftRow, Pipeline, RowSink};
use robocache_core::spec::Config;
use robocache_core::visual::elements;
use robocache_data::bag::Bag;
use robocache_data::file::OutputError;
use robocache_data::output::Output;
use robocache_data::replay::{
    self, AskedClock, BagDefinitions, Episode, Moment, Playing, Progress, Remap, ReplayError,
    Wiring,
};
use robocache_ops::device::RowMemory;
use robocache_ops::dtype::DType;
use robocache_ops::operators::OutputStage;
use robocache_ops::resample::Lane;
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};
use robocache_runtime::Tick;

/// How much of a recording is compared \[ns\].
const WINDOW_NS: i64 = 2 * NANOS_PER_S;
/// Messages are looked for so long before and after that part: transforms, and messages with delays \[ns\].
const AROUND_NS: i64 = 5 * NANOS_PER_S;
/// Most rows of a ring that are kept: 2 s at 50 kHz.
const MAX_ROWS: usize = 100_000;

/// The bag that tensors are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Against {
    /// A folder or a file.
    pub bag: PathBuf,
    /// Topics of the configuration that have other names in it.
    pub remaps: Vec<Remap>,
    /// Which clock the ticks were on.
    pub time: AskedClock,
    /// The file of the configuration, beside which the files that it names are; by default in the current folder.
    pub config: Option<PathBuf>,
}

impl Against {
    /// Says how surely an episode was made of this bag.
    fn fits(&self, episode: &source::Episode) -> Fits {
        let Some(bag) = episode.bag.as_ref().map(Path::new) else { return Fits::No };
        let is_same = |[a, b]: [&Path; 2]| {
            a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
        };
        match bag.file_name() == self.bag.file_name() {
            _ if is_same([bag, &self.bag]) => Fits::Same,
            true => Fits::Name,
            false => Fits::No,
        }
    }

    /// Which of the chosen episodes are compared with the bag. If one episode is chosen, the bag may be any that is
    /// not another episode's: it may have another name now.
    ///
    /// # Errors
    /// The bag is missing, or it is not that of a chosen episode.
    pub(super) fn compares<'a>(
        &self,
        chosen: &[&'a source::Episode],
        all: &[source::Episode],
    ) -> Result<Vec<&'a source::Episode>, ViewError> {
        let no_bag = |source| ViewError::NoBag { path: self.bag.clone(), source };
        std::fs::metadata(&self.bag).map_err(no_bag)?;
        let best = all.iter().map(|episode| self.fits(episode)).max().unwrap_or(Fits::No);
        let is_of = |episode: &source::Episode| best != Fits::No && self.fits(episode) == best;
        let compared: Vec<_> = chosen.iter().copied().filter(|episode| is_of(episode)).collect();
        if best == Fits::No && chosen.len() == 1 {
            return Ok(chosen.to_vec());
        }
        if !compared.is_empty() {
            return Ok(compared);
        }
        let owners: Vec<_> = all.iter().filter(|e| is_of(e)).map(|e| e.name.as_str()).collect();
        let with_bag = |episode: &&source::Episode| {
            let bag = episode.bag.as_deref().unwrap_or("not known");
            format!("{} ({bag})", episode.name)
        };
        Err(ViewError::Against {
            bag: self.bag.clone(),
            found: match owners.is_empty() {
                true => String::new(),
                false => format!("found the bag of {}, ", owners.join(", ")),
            },
            episodes: chosen.iter().map(with_bag).collect::<Vec<_>>().join(" or "),
        })
    }
}

/// How surely an episode was made of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fits {
    /// It was not, or that is unknown.
    No,
    /// A bag of this name. Bags may have been moved.
    Name,
    /// This bag.
    Same,
}

/// Curves of the rows of a bag, and of the tensors, where the robot moves most.
///
/// # Errors
/// The bag cannot be read, or the configuration of the tensors does not fit it.
pub(super) fn compared(track: &Track, against: &Against) -> Result<Section, ViewError> {
    let mut section = Section::new("Raw against aligned");
    let Some(info) = track.info.as_ref().filter(|_| !track.ticks.is_empty()) else {
        section.text("Without tensors and their FusedTensorInfo, there is nothing to compare.");
        return Ok(section);
    };
    let bag = Bag::open(&against.bag)?;
    let definitions = BagDefinitions::new(&bag)?;
    let file = against.config.as_deref().unwrap_or(Path::new(&info.config_file));
    let config = config::parse_with(&info.config, &file.display().to_string(), &definitions)
        .map_err(ReplayError::from)?;
    let wiring = of_vectors(Wiring::new(&bag, &config, &against.remaps, &against.time)?, &config);
    let missing = wiring.missing.clone();
    let start = liveliest(track);
    let rings = Rings::new(&config, start);
    let rows = read(&bag, &wiring, config, rings, start)?;
    section.text(&format!(
        "The rows that {} gives, at their own stamps, beside the tensors, in the {} s in which the streams change \
         most.",
        against.bag.display(),
        WINDOW_NS / NANOS_PER_S
    ));
    let lacks = |topic: &String| {
        format!("The bag has no topic {topic}. If it has another name there, say so with --remap.")
    };
    if !missing.is_empty() {
        section.list(&missing.iter().map(lacks).collect::<Vec<_>>());
    }
    for segment in track.segments.iter().filter(|segment| segment.curves > 0) {
        let of = info.segment(&segment.name);
        section.heading(&segment.name, "");
        if !rows.write(segment, of, &mut section) {
            section.text("In this time there is no row of it, or no valid step.");
        }
    }
    Ok(section)
}

/// Leaves out what vectors do not need: reading images takes long.
fn of_vectors(mut wiring: Wiring, config: &Config) -> Wiring {
    for feeds in &mut wiring.feeds {
        feeds.retain(|id| {
            let input = config.input(*id);
            match input.stream {
                Some(stream) => config.stream(stream).encoder.as_vector().is_some(),
                None => input.feeds_tree(),
            }
        });
    }
    wiring
}

/// The instant of the tick with which [`WINDOW_NS`] begin in which the vectors change most.
fn liveliest(track: &Track) -> Stamp {
    let ticks = &track.ticks;
    // Stamps begin again with a simulator.
    let again = ticks.windows(2).position(|pair| pair[1].1 < pair[0].1);
    let count = again.map_or(ticks.len(), |at| at + 1);
    let mut sums = vec![0.0; count];
    for segment in track.segments.iter().filter(|segment| segment.curves > 0) {
        let mut changes = changes(segment, count);
        // What changed between two ticks that do not follow each other is no motion.
        for broken in track.breaks.iter().filter(|broken| broken.at < count) {
            changes[broken.at] = 0.0;
        }
        let all: f64 = changes.iter().sum();
        // Every stream counts as much as the others.
        sums.iter_mut().zip(&changes).for_each(|(sum, change)| *sum += change / all.max(1e-300));
    }
    let mut end = 0;
    let mut inside = 0.0;
    let mut best = (f64::MIN, 0);
    for from in 0..count {
        while end < count && ticks[end].1.since(ticks[from].1) <= WINDOW_NS {
            inside += sums[end];
            end += 1;
        }
        // Sums of floats leave a rest that must not count.
        if inside > best.0 + 1e-9 {
            best = (inside, from);
        }
        inside -= sums[from];
    }
    ticks.get(best.1).map_or(Stamp::ZERO, |(_, stamp)| *stamp)
}

/// By how much the channels of a segment change from the tick before to each tick, in parts of their ranges.
fn changes(segment: &Segment, count: usize) -> Vec<f64> {
    let rows: Vec<&[f32]> = segment.rows.chunks_exact(segment.curves).take(count).collect();
    let mut changes = vec![0.0; count];
    for channel in 0..segment.curves {
        let values = || rows.iter().map(|row| f64::from(row[channel]));
        let range = extent(values());
        for (at, pair) in rows.windows(2).enumerate() {
            let change = f64::from(pair[1][channel] - pair[0][channel]).abs() / range;
            // NaN: one of them is not valid.
            changes[at + 1] += if change.is_finite() { change } else { 0.0 };
        }
    }
    changes
}

/// The largest value minus the smallest one.
fn extent(values: impl Iterator<Item = f64>) -> f64 {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    (high - low).max(0.0)
}

/// The rows of all rings of vectors in a part of the recording.
struct Rings(Vec<Option<RingRows>>);

/// Rows of a ring.
struct RingRows {
    stream: String,
    wanted: RangeInclusive<Stamp>,
    dtype: DType,
    /// Places of its elements in a step.
    places: Vec<usize>,
    /// Operators on a row after the interpolation.
    output: Option<OutputStage>,
    /// True if a value between two rows is on the line between them.
    is_linear: bool,
    rows: Vec<(Stamp, Vec<f64>)>,
    epoch: Option<Epoch>,
    /// True if there was a row behind the part.
    passed: bool,
}

impl Rings {
    fn new(config: &Config, start: Stamp) -> Self {
        let layout = Layout::new(config);
        let rings = layout.rings().iter().map(|place| {
            let spec = config.stream(place.stream);
            let vector = spec.encoder.as_vector()?;
            let from = start.offset(-spec.lag_ns);
            let strategy = spec.strategy();
            let output = vector.stages(place.group, strategy).output;
            let lanes = vector.lanes(place.group);
            Some(RingRows {
                stream: spec.name.clone(),
                wanted: from..=from.offset(WINDOW_NS),
                dtype: match vector.keeps_f32(place.group, strategy) {
                    true => DType::F32,
                    false => spec.dtype,
                },
                places: vector.places(place.group),
                is_linear: strategy.interpolates()
                    && output.is_none()
                    && lanes.iter().all(|lane| *lane == Lane::Linear),
                output,
                rows: Vec::new(),
                epoch: None,
                passed: false,
            })
        });
        Rings(rings.collect())
    }

    /// The curves of a segment. Returns whether there are any.
    fn write(&self, segment: &Segment, info: Option<&SegmentInfo>, section: &mut Section) -> bool {
        let names = channel_names(segment, info);
        let rings = || self.0.iter().flatten().filter(|ring| ring.stream == segment.name);
        let place = |channel: usize| {
            let of = |ring| Some((ring, of_place(ring, channel)?));
            rings().find_map(of)
        };
        // One kind of channel, and of these the ones that move most.
        for (label, channels) in groups(&names) {
            let unit = info.map_or("", |info| info.unit(channels[0]));
            let mut curves: Vec<(f64, bool, Compared)> = Vec::new();
            for channel in channels {
                let Some((ring, element)) = place(channel) else { continue };
                let raw = ring.rows.iter().filter_map(|(at, row)| Some((*at, *row.get(element)?)));
                let raw: Vec<_> = raw.collect();
                let moves = extent(raw.iter().map(|(_, value)| *value));
                let aligned = aligned(segment, channel, &ring.wanted);
                let curve = Compared { name: names[channel].clone(), raw, aligned };
                curves.push((moves, ring.is_linear, curve));
            }
            curves.sort_by(|a, b| b.0.total_cmp(&a.0));
            curves.truncate(MAX_CURVES);
            let is_linear = !curves.is_empty() && curves.iter().all(|(_, linear, _)| *linear);
            let value = if unit.is_empty() { label } else { format!("{label} [{unit}]") };
            let curves: Vec<Compared> = curves.into_iter().map(|(_, _, curve)| curve).collect();
            let lag_ns = info.map(|info| info.lag_ns);
            if raw::write(section, &curves, &value, lag_ns, is_linear) {
                return true;
            }
        }
        false
    }
}

/// Position of a channel among the elements of a ring's rows.
fn of_place(ring: &RingRows, channel: usize) -> Option<usize> {
    ring.places.iter().position(|place| *place == channel)
}

/// The valid present steps of a channel, with target and age.
fn aligned(
    segment: &Segment,
    channel: usize,
    wanted: &RangeInclusive<Stamp>,
) -> Vec<(Stamp, f64, i64)> {
    let values = segment.rows.iter().skip(channel).step_by(segment.curves);
    let steps = segment.target.iter().zip(&segment.age_ns).zip(values);
    let steps = steps.filter(|((target, _), value)| wanted.contains(target) && value.is_finite());
    steps.map(|((target, age_ns), value)| (*target, f64::from(*value), *age_ns)).collect()
}

impl RingRows {
    fn take(&mut self, row: &LeftRow<'_>, bytes: &[u8]) {
        let stamp = row.entry.stamp;
        self.passed |= stamp > *self.wanted.end();
        let is_one_epoch = self.epoch.is_none_or(|epoch| epoch == row.epoch);
        let is_shown = self.wanted.contains(&stamp) && is_one_epoch && !row.replaced;
        if !is_shown || self.rows.len() >= MAX_ROWS {
            return;
        }
        self.epoch = Some(row.epoch);
        let values: Vec<f64> = elements(self.dtype, bytes).into_iter().map(f64::from).collect();
        let Some(stage) = &self.output else { return self.rows.push((stamp, values)) };
        let mut part = vec![0.0; stage.len()];
        stage.apply(&values, |at, value| part[at] = value);
        self.rows.push((stamp, part));
    }
}

/// Reads the rows of the part of a bag that is wanted.
fn read(
    bag: &Bag,
    wiring: &Wiring,
    config: Config,
    rings: Rings,
    start: Stamp,
) -> Result<Rings, ViewError> {
    let backend = backend::create(Choice::Cpu, 0, &config, &Layout::new(&config))
        .map_err(ReplayError::from)?;
    let mut pipeline = Pipeline::new(config, backend).map_err(ReplayError::from)?;
    let rings = Arc::new(Mutex::new(rings));
    pipeline.keep_rows(Box::new(Sink(Arc::clone(&rings))));
    // A simulator's instants are not those of the recorder: all is read up to the part that is wanted.
    let at = |nanos| Some(Moment::At(start.offset(nanos))).filter(|_| !wiring.clock.is_simulated());
    let (first, last) = bag.span().unwrap_or((start, start));
    let end = WINDOW_NS + AROUND_NS;
    let is_elsewhere = !wiring.clock.is_simulated()
        && (start.offset(-AROUND_NS) > last || start.offset(end) < first);
    if !is_elsewhere {
        let episode = Episode { start: at(-AROUND_NS), end: at(end), ..Episode::default() };
        let playing = Playing { digest: false, threads: 1 };
        let until = Until(Arc::clone(&rings));
        replay::run(bag, &episode, wiring, pipeline, &mut Nowhere, playing, &until)?;
    }
    let mut rings = lock(&rings);
    Ok(Rings(std::mem::take(&mut rings.0)))
}

/// Takes the rows of a pipeline.
struct Sink(Arc<Mutex<Rings>>);

impl RowSink for Sink {
    fn row(&self, row: &LeftRow<'_>, bytes: &mut RowMemory) {
        if let Some(Some(ring)) = lock(&self.0).0.get_mut(row.ring.index()) {
            ring.take(row, bytes);
        }
    }
}

/// Goes on until all rings have passed the part that is wanted.
struct Until(Arc<Mutex<Rings>>);

impl Progress for Until {
    fn at(&self, _: Stamp) -> bool {
        !lock(&self.0).0.iter().flatten().all(|ring| ring.passed)
    }
}

/// An output that takes no ticks: the rows go to the [`Sink`].
struct Nowhere;

impl Output for Nowhere {
    fn takes_ticks(&self) -> bool {
        false
    }

    fn tick(&mut self, _: Tick, _: &TensorMessage) -> Result<(), OutputError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
