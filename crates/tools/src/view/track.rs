//! Parts of an episode's tensors that are kept while the tensors are read.

use std::collections::BTreeMap;

use robocache_core::encoder::kind;
use robocache_core::message::{SegmentInfo, SegmentRead, TensorInfo, TensorRead};
use robocache_core::visual;
use robocache_ops::align::NO_AGE;
use robocache_ops::time::Stamp;

/// A track keeps the validity, ages and curves of at most this number of ticks: 33 minutes at 100 Hz.
pub(super) const MAX_TICKS: usize = 200_000;
/// A track keeps the curves of at most this number of channels of a segment.
pub(super) const MAX_CURVES: usize = 32;
/// Whole steps of large segments that are kept for pictures, at most: their bytes together.
const MAX_KEPT_BYTES: usize = 512 << 20;

/// Parts of an episode's tensors that are kept.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// Meaning of the tensors; without it nothing but validity and ages can be shown.
    pub info: Option<TensorInfo>,
    /// Number and instant of each tensor that was looked at, in their order.
    pub ticks: Vec<(u64, Stamp)>,
    /// In the order of the first tensor.
    pub segments: Vec<Segment>,
    /// The tensors whose images become pictures, in their order.
    pub kept: Vec<Kept>,
    /// Bytes of the packed segments of a tensor.
    pub tensor_bytes: usize,
    /// Messages that are no tensors.
    pub malformed: u64,
    /// True if segments have a place in a message: not so in a store.
    pub packed: bool,
    /// Of rows: the instant that times are from. `None`: these are tensors.
    pub rows_from: Option<Stamp>,
    /// Breaks: places where a tick does not follow the one before it, in their order. A curve has a gap there.
    pub breaks: Vec<Break>,
    /// The part of valid steps among all ticks of the episode, by stream, if the replay has counted it.
    pub shares: BTreeMap<String, f64>,
    /// Of rows: two that are further apart have a gap between them \[ns\].
    gap_ns: i64,
    /// True if there may be other tensors before the next one, which are not looked at.
    skipped: bool,
}

/// A place where a tick does not follow the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// Of the tick behind it, among [`Track::ticks`].
    pub at: usize,
    /// True if the tensors between them were not read. Otherwise there are no tensors between them.
    pub unread: bool,
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
    /// Place of the segment in the tensor: first byte, bytes.
    pub place: (usize, usize),
    /// The step whose values, ages and reasons are kept: the present one.
    pub present: usize,
    /// Valid steps.
    pub valid_steps: Vec<u32>,
    /// The state of the present step.
    pub state: Vec<StepValidity>,
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
pub enum StepValidity {
    /// It is valid.
    Valid,
    /// It is not, and its age does not tell why: rows too far apart, or a part of the stream is missing.
    NotValid,
    /// The newest row that could be used is too old.
    TooOld,
    /// There is no row that could be used.
    NoRow,
}

impl StepValidity {
    /// All, in their order.
    pub const ALL: [StepValidity; 4] =
        [StepValidity::Valid, StepValidity::NotValid, StepValidity::TooOld, StepValidity::NoRow];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            StepValidity::Valid => "valid",
            StepValidity::NotValid => "a gap, or a part is missing",
            StepValidity::TooOld => "too old",
            StepValidity::NoRow => "no row",
        }
    }
}

/// A tensor that is drawn.
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
    /// True if the step may be acted on.
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
    /// Nothing yet.
    pub fn new(info: Option<TensorInfo>) -> Self {
        Track { info, packed: true, ..Track::default() }
    }

    /// Nothing yet, of the rows of a ring in place of tensors. Times are from `origin`. Rows that are further apart
    /// than `gap_ns` have a gap between them.
    pub fn of_rows(info: TensorInfo, origin: Stamp, gap_ns: i64) -> Self {
        Track { packed: false, rows_from: Some(origin), gap_ns, ..Track::new(Some(info)) }
    }

    /// True if no more ticks are kept.
    pub fn is_full(&self) -> bool {
        self.ticks.len() >= MAX_TICKS
    }

    /// Says that there may be others before the next tensor, which are not looked at.
    pub(super) fn skip(&mut self) {
        self.skipped = true;
    }

    /// Notes validity, ages and vectors of a tensor message. Returns its place among the ticks; `None` if it is no
    /// tensor, or there is no room.
    pub fn note(&mut self, message: &[u8]) -> Option<usize> {
        match TensorRead::read(message) {
            Ok(tensor) => self.note_read(&tensor),
            Err(_) => {
                self.malformed += 1;
                None
            }
        }
    }

    /// As [`Track::note`], of a tensor. Of other segments than vectors, the elements may be missing.
    pub(super) fn note_read(&mut self, tensor: &TensorRead<'_>) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        if self.ticks.is_empty() {
            let info = self.info.as_ref();
            let of = |segment| Segment::new(segment, info.and_then(|info| meaning(info, segment)));
            self.segments = tensor.segments.iter().map(of).collect();
            self.tensor_bytes = tensor.len;
        }
        let at = self.ticks.len();
        let skipped = std::mem::take(&mut self.skipped);
        if let Some((tick, stamp)) = self.ticks.last() {
            let follows = match self.rows_from {
                None => tensor.tick == tick.wrapping_add(1),
                Some(_) => !skipped && (0..=self.gap_ns).contains(&tensor.stamp.since(*stamp)),
            };
            if !follows {
                self.breaks.push(Break { at, unread: skipped });
            }
        }
        self.ticks.push((tensor.tick, tensor.stamp));
        for segment in &mut self.segments {
            let read = tensor.segment(&segment.name);
            let info = self.info.as_ref().and_then(|info| info.segment(&segment.name));
            segment.note(read, info);
        }
        Some(at)
    }

    /// The places of the ticks whose images become pictures. The time is divided into `pictures` equal parts, and each
    /// gives the tick in its middle. If these tensors would need too much memory, there are fewer parts.
    pub fn spread(&self, pictures: usize) -> Vec<usize> {
        let mut elapsed = Vec::with_capacity(self.ticks.len());
        let mut sum = 0_i64;
        let mut before = None;
        for (_, stamp) in &self.ticks {
            // A simulator's stamps may begin again.
            let passed = before.replace(*stamp).map_or(0, |before| stamp.since(before).max(0));
            sum = sum.saturating_add(passed);
            elapsed.push(sum);
        }
        let parts = pictures.min(MAX_KEPT_BYTES / self.tensor_bytes.max(1)).max(1) as i128;
        let nearest = |part: i128| {
            let wanted = (i128::from(sum) * (2 * part + 1) / (2 * parts)) as i64;
            let after = elapsed.partition_point(|at| *at < wanted);
            let before = after.saturating_sub(1);
            let is_after = elapsed.get(after)? - wanted < wanted - elapsed[before];
            Some(if is_after { after } else { before })
        };
        let mut places: Vec<usize> = (0..parts).filter_map(nearest).collect();
        places.dedup();
        places
    }

    /// Keeps a tensor message for pictures, if it is that of the tick at this place. Returns whether it is.
    pub fn keep(&mut self, at: usize, message: &[u8]) -> bool {
        let Ok(tensor) = TensorRead::read(message) else { return false };
        let is_it = self.ticks.get(at).is_some_and(|(tick, _)| *tick == tensor.tick);
        if is_it {
            self.keep_read(at, &tensor);
        }
        is_it
    }

    /// Keeps the tensor of the tick at this place for pictures.
    pub(super) fn keep_read(&mut self, at: usize, tensor: &TensorRead<'_>) {
        let mut steps = BTreeMap::new();
        for segment in &self.segments {
            let read = tensor.segment(&segment.name);
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
    }

    /// The points of a curve, one for each tick. If a tick does not follow the one before it, a gap is between them.
    pub fn with_gaps<'a>(
        &'a self,
        points: impl Iterator<Item = (f64, f64)> + 'a,
    ) -> impl Iterator<Item = (f64, f64)> + 'a {
        let mut breaks = self.breaks.iter().map(|broken| broken.at).peekable();
        points.enumerate().flat_map(move |(at, point)| {
            let gap = breaks.next_if_eq(&at).map(|_| (point.0, f64::NAN));
            gap.into_iter().chain([point])
        })
    }

    /// The part of a segment's steps that is valid: of all ticks of the episode, if the replay has counted it, and
    /// otherwise of the tensors that were looked at. `None` without steps.
    pub fn valid_share(&self, segment: &Segment) -> Option<f64> {
        self.shares.get(&segment.name).copied().or_else(|| segment.valid_share())
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

/// Meaning of a segment, if it has the shape and the type that the info says.
fn meaning<'a>(info: &'a TensorInfo, segment: &SegmentRead<'_>) -> Option<&'a SegmentInfo> {
    let is_it =
        |info: &&SegmentInfo| info.shape == segment.shape && info.dtype == segment.dtype.name();
    info.segment(&segment.name).filter(is_it)
}

impl Segment {
    fn new(read: &SegmentRead<'_>, info: Option<&SegmentInfo>) -> Self {
        let row: usize = read.shape[1..].iter().product();
        let is_vector = info.is_none_or(|info| info.encoder == kind::VECTOR);
        let curves = if is_vector && read.shape.len() == 2 { row.min(MAX_CURVES) } else { 0 };
        let last = read.valid.len().saturating_sub(1);
        Segment {
            name: read.name.clone(),
            shape: read.shape.clone(),
            dtype: read.dtype.name(),
            place: (read.byte_offset, read.shape.iter().product::<usize>() * read.dtype.size()),
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
            self.state.push(StepValidity::NoRow);
            self.age_ns.push(NO_AGE);
            self.target.push(Stamp::ZERO);
            self.rows.extend(std::iter::repeat_n(f32::NAN, self.curves));
            return;
        };
        let age_ns = read.ages_ns[self.present];
        let too_old = info.is_some_and(|info| age_ns > info.max_age_ns);
        self.valid_steps.push(read.valid.iter().filter(|valid| **valid != 0).count() as u32);
        self.state.push(match (seen.valid, age_ns) {
            (true, _) => StepValidity::Valid,
            (false, NO_AGE) => StepValidity::NoRow,
            (false, _) if too_old => StepValidity::TooOld,
            (false, _) => StepValidity::NotValid,
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

    /// The part of the steps that is valid, of the tensors that were looked at; `None` without steps.
    fn valid_share(&self) -> Option<f64> {
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
