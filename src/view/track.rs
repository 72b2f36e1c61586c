//! What is kept of an episode's tensors while they are read.

use std::collections::BTreeMap;

use super::info::{Info, SegmentInfo};
use crate::align::NO_AGE;
use crate::time::Stamp;
use crate::visual::{self, SegmentRead, TensorRead};

/// Most ticks of which validity, ages and curves are kept: an hour at 100 Hz is 360,000.
pub const MAX_TICKS: usize = 200_000;
/// Most channels of a segment of vectors of which curves are kept.
pub const MAX_CURVES: usize = 32;
/// Whole steps of large segments that are kept for pictures, at most: their bytes together.
const MAX_KEPT_BYTES: usize = 512 << 20;

/// What is kept of the tensors of an episode.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// What the tensors mean; without it nothing but validity and ages can be shown.
    pub info: Option<Info>,
    /// Number and instant of each tensor that was looked at, in their order.
    pub ticks: Vec<(u64, Stamp)>,
    /// In the order of the first tensor.
    pub segments: Vec<Segment>,
    /// Some tensors, evenly spread.
    pub kept: Vec<Kept>,
    /// Bytes of the packed segments of a tensor.
    pub tensor_bytes: usize,
    /// Messages that are no tensors.
    pub malformed: u64,
    /// Whether segments have a place in a message: not so in a store.
    pub packed: bool,
    /// Of rows: the instant that times are from. `None`: these are tensors.
    pub rows_from: Option<Stamp>,
    /// A tensor is kept if its number among those looked at is a multiple of this.
    stride: usize,
    /// How many tensors are wanted for pictures.
    pictures: usize,
}

/// A segment over time. The lists have an entry per tick.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its name.
    pub name: String,
    /// Of the first tensor: steps, then the dimensions of a row.
    pub shape: Vec<usize>,
    /// The element type's name.
    pub dtype: &'static str,
    /// Where it is in the tensor: first byte, bytes.
    pub place: (usize, usize),
    /// The step whose values, ages and reasons are kept: the present one.
    pub present: usize,
    /// Valid steps.
    pub valid_steps: Vec<u32>,
    /// The state of the present step.
    pub state: Vec<State>,
    /// The age of the present step \[ns\]; [`NO_AGE`] if there is no row.
    pub age_ns: Vec<i64>,
    /// The target of the present step.
    pub target: Vec<Stamp>,
    /// The values of the first channels of a vector, one tick after the other; NaN if not valid.
    pub rows: Vec<f32>,
    /// Channels in `rows`.
    pub curves: usize,
}

/// Why a step is not valid, as far as its age tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is valid.
    Valid,
    /// It is not, and its age does not tell why: rows too far apart, or a part of the stream is missing.
    NotValid,
    /// The newest row that could be used is too old.
    TooOld,
    /// There is no row that could be used.
    NoRow,
}

impl State {
    /// All, in their order.
    pub const ALL: [State; 4] = [State::Valid, State::NotValid, State::TooOld, State::NoRow];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            State::Valid => "valid",
            State::NotValid => "a gap, or a part is missing",
            State::TooOld => "too old",
            State::NoRow => "no row",
        }
    }
}

/// A tensor of which pictures are made.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its place among [`Track::ticks`].
    pub at: usize,
    /// Its instant.
    pub stamp: Stamp,
    /// By segment: the present step.
    pub steps: BTreeMap<String, Step>,
}

/// A step of a segment, with its elements.
#[derive(Clone, Debug)]
pub struct Step {
    /// Whether it may be acted on.
    pub valid: bool,
    /// Its target time.
    pub target: Stamp,
    /// Its age \[ns\].
    pub age_ns: i64,
    /// Entries in use.
    pub count: u32,
    /// Its elements.
    pub bytes: Vec<u8>,
}

impl Track {
    /// Nothing yet. `pictures`: how many tensors are kept for pictures.
    pub fn new(info: Option<Info>, pictures: usize) -> Self {
        Track { info, packed: true, stride: 1, pictures: pictures.max(1), ..Track::default() }
    }

    /// Nothing yet, of the rows of a ring in place of tensors. Times are from `origin`.
    pub fn of_rows(info: Info, pictures: usize, origin: Stamp) -> Self {
        let track = Track::new(Some(info), pictures);
        Track { packed: false, rows_from: Some(origin), ..track }
    }

    /// Whether no more ticks are kept.
    pub fn is_full(&self) -> bool {
        self.ticks.len() >= MAX_TICKS
    }

    /// Notes the bytes of a tensor message.
    pub fn note(&mut self, message: &[u8]) {
        match TensorRead::read(message) {
            Ok(tensor) => self.note_read(&tensor),
            Err(_) => self.malformed += 1,
        }
    }

    /// Notes a tensor.
    pub(super) fn note_read(&mut self, tensor: &TensorRead<'_>) {
        if self.is_full() {
            return;
        }
        if self.ticks.is_empty() {
            let info = self.info.as_ref();
            let of = |segment| Segment::new(segment, info.and_then(|info| info.of(segment)));
            self.segments = tensor.segments.iter().map(of).collect();
            self.tensor_bytes = tensor.len;
        }
        let at = self.ticks.len();
        self.ticks.push((tensor.tick, tensor.stamp));
        for segment in &mut self.segments {
            let read = tensor.segments.iter().find(|read| read.name == segment.name.as_bytes());
            let info = self.info.as_ref().and_then(|info| info.segment(&segment.name));
            segment.note(read, info);
        }
        if at.is_multiple_of(self.stride) {
            self.keep(at, tensor);
        }
    }

    /// Keeps a tensor for pictures. If there are too many, every second one is dropped.
    fn keep(&mut self, at: usize, tensor: &TensorRead<'_>) {
        let mut steps = BTreeMap::new();
        for segment in &self.segments {
            let read = tensor.segments.iter().find(|read| read.name == segment.name.as_bytes());
            let Some((read, seen)) =
                read.and_then(|read| Some((read, read.step(segment.present)?)))
            else {
                continue;
            };
            let step = Step {
                valid: seen.valid,
                target: seen.target,
                age_ns: read.ages_ns[segment.present],
                count: seen.count,
                bytes: seen.bytes.to_vec(),
            };
            steps.insert(segment.name.clone(), step);
        }
        self.kept.push(Kept { at, stamp: tensor.stamp, steps });
        let most = (MAX_KEPT_BYTES / self.tensor_bytes.max(1)).clamp(1, 2 * self.pictures);
        while self.kept.len() > most {
            self.stride *= 2;
            self.kept.retain(|kept| kept.at.is_multiple_of(self.stride));
        }
    }

    /// The tensors for pictures, evenly spread, at most as many as are wanted. The last of those that were
    /// kept is among them.
    pub fn pictured(&self) -> Vec<&Kept> {
        let (count, wanted) = (self.kept.len(), self.pictures.min(self.kept.len()));
        let place = |at: usize| (at + 1) * count / wanted.max(1) - 1;
        (0..wanted).map(|at| &self.kept[place(at)]).collect()
    }

    /// Each segment, with the track.
    pub fn each(&self) -> impl Iterator<Item = (&Track, &Segment)> {
        self.segments.iter().map(move |segment| (self, segment))
    }

    /// The instant of the first tensor that was looked at, or that of all rows.
    pub fn origin(&self) -> Stamp {
        let first = || self.ticks.iter().map(|(_, stamp)| *stamp).min().unwrap_or(Stamp::ZERO);
        self.rows_from.unwrap_or_else(first)
    }
}

impl Info {
    /// What this segment means, if it has the shape that is said.
    fn of(&self, segment: &SegmentRead<'_>) -> Option<&SegmentInfo> {
        let name = String::from_utf8_lossy(segment.name);
        let info = self.segment(&name)?;
        let same = info.shape.iter().map(|dim| usize::try_from(*dim).ok());
        let same = same.eq(segment.shape.iter().map(|dim| Some(*dim)));
        (same && info.dtype == segment.dtype.name()).then_some(info)
    }
}

impl Segment {
    fn new(read: &SegmentRead<'_>, info: Option<&SegmentInfo>) -> Self {
        let row: usize = read.shape[1..].iter().product();
        let is_vector = info.is_none_or(|info| info.encoder == "vector");
        let curves = if is_vector && read.shape.len() == 2 { row.min(MAX_CURVES) } else { 0 };
        let last = read.valid.len().saturating_sub(1);
        Segment {
            name: String::from_utf8_lossy(read.name).into_owned(),
            shape: read.shape.clone(),
            dtype: read.dtype.name(),
            place: (read.byte_offset, read.bytes.len()),
            present: info.and_then(SegmentInfo::present_step).unwrap_or(last),
            valid_steps: Vec::new(),
            state: Vec::new(),
            age_ns: Vec::new(),
            target: Vec::new(),
            rows: Vec::new(),
            curves,
        }
    }

    /// Notes the segment of a tensor; `None` if the tensor does not have it.
    fn note(&mut self, read: Option<&SegmentRead<'_>>, info: Option<&SegmentInfo>) {
        let same = read.filter(|read| read.shape == self.shape && read.dtype.name() == self.dtype);
        let seen = same.and_then(|read| Some((read, read.step(self.present)?)));
        let Some((read, seen)) = seen else {
            self.valid_steps.push(0);
            self.state.push(State::NoRow);
            self.age_ns.push(NO_AGE);
            self.target.push(Stamp::ZERO);
            self.rows.extend(std::iter::repeat_n(f32::NAN, self.curves));
            return;
        };
        let age_ns = read.ages_ns[self.present];
        let too_old = info.is_some_and(|info| age_ns > info.max_age_ns);
        self.valid_steps.push(read.valid.iter().filter(|valid| **valid != 0).count() as u32);
        self.state.push(match (seen.valid, age_ns) {
            (true, _) => State::Valid,
            (false, NO_AGE) => State::NoRow,
            (false, _) if too_old => State::TooOld,
            (false, _) => State::NotValid,
        });
        self.age_ns.push(age_ns);
        self.target.push(seen.target);
        if self.curves > 0 {
            let values = visual::elements(read.dtype, seen.bytes);
            let of = |value: &f32| if seen.valid { *value } else { f32::NAN };
            self.rows.extend(values.iter().take(self.curves).map(of));
        }
    }

    /// Steps of the segment in each tensor.
    pub fn steps(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// The part of the steps that is valid; `None` without steps.
    pub fn valid_share(&self) -> Option<f64> {
        let steps = self.steps() * self.valid_steps.len();
        let valid: u64 = self.valid_steps.iter().map(|valid| u64::from(*valid)).sum();
        (steps > 0).then(|| valid as f64 / steps as f64)
    }

    /// The values of a channel with their targets in seconds from `origin`.
    pub fn curve(&self, channel: usize, origin: Stamp) -> impl Iterator<Item = (f64, f64)> + '_ {
        let values = self.rows.iter().skip(channel).step_by(self.curves.max(1));
        let seconds = move |target: &Stamp| target.since(origin) as f64 / 1e9;
        self.target
            .iter()
            .zip(values)
            .map(move |(target, value)| (seconds(target), f64::from(*value)))
    }
}
