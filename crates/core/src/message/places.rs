//! Places of the parts of a message, and how the parts that change are written.

use std::ops::Range;

use robocache_ops::align::NO_AGE;
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

/// Fields of each step of a segment, in the order of a message: the field, and bytes of an entry.
pub(super) const STEP_FIELDS: [(&str, usize); 5] =
    [("valid", 1), ("target_ns", 8), ("age_ns", 8), ("count", 4), ("inputs_valid", 4)];

/// Places of the parts of a message: bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The base frame.
    pub frame_id: String,
    /// True if numbers have their most significant byte first, except for those of the data.
    pub big_endian: bool,
    pub(super) stamp_at: usize,
    /// The run, and the epoch behind it; `None` in a form that has neither.
    pub(super) run_at: Option<usize>,
    pub(super) tick_at: usize,
    pub(super) digest_at: usize,
    /// In the order of the message.
    pub segments: Vec<SegmentPlaces>,
    /// The data of all segments, with what is between them.
    pub data: Range<usize>,
}

/// Places of the parts of a segment: bytes from the start of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPlaces {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Steps, then the dimensions of a row.
    pub shape: Vec<usize>,
    /// The elements of all steps.
    pub data: Range<usize>,
    /// Places of the steps' fields, an entry per step: `valid` (1 byte), `target_ns` and `age_ns` (8),
    /// `count` and `inputs_valid` (4).
    pub steps_at: [usize; STEP_FIELDS.len()],
}

/// State of one step in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepState {
    /// True if the value may be acted on.
    pub valid: bool,
    /// The step's target time, on the node's clock.
    pub target: Stamp,
    /// Target minus the stamp of the newest row used \[ns\], [`NO_AGE`] if there is no row.
    pub age_ns: i64,
    /// Entries in use along the segment's second dimension: all of them, unless the value is zeros
    /// because there is no row.
    pub count: u32,
    /// Bit `i`: the step is valid, and a row that it uses came from the stream's input `i`.
    pub inputs_valid: u32,
}

impl StepState {
    /// The state before the first tick.
    pub(super) const NEVER: StepState =
        StepState { valid: false, target: Stamp::ZERO, age_ns: NO_AGE, count: 0, inputs_valid: 0 };
}

impl Places {
    /// Writes stamp and number of a tick, and that the message is not sealed.
    pub(super) fn put_tick(&self, message: &mut [u8], tick: i64, stamp: Stamp) {
        let (sec, nanosec) = stamp.to_sec_nanosec();
        put(message, self.stamp_at, &sec.to_le_bytes());
        put(message, self.stamp_at + 4, &nanosec.to_le_bytes());
        // Only a simulator's clock may be before zero. The number of the tick wraps there.
        put(message, self.tick_at, &(tick as u64).to_le_bytes());
        self.put_digest(message, 0);
    }

    /// Writes the number of the run, if the form has one.
    pub(super) fn put_run(&self, message: &mut [u8], run: u64) {
        if let Some(at) = self.run_at {
            put(message, at, &run.to_le_bytes());
        }
    }

    /// Writes the number of the epoch, if the form has one.
    pub(super) fn put_epoch(&self, message: &mut [u8], epoch: u64) {
        if let Some(at) = self.run_at {
            put(message, at + 8, &epoch.to_le_bytes());
        }
    }

    /// Writes the digest.
    pub(super) fn put_digest(&self, message: &mut [u8], digest: u64) {
        put(message, self.digest_at, &digest.to_le_bytes());
    }

    /// The instant of a message's tick.
    pub fn stamp(&self, message: &[u8]) -> Stamp {
        let sec = i32::from_le_bytes(self.number(message, self.stamp_at));
        let nanosec = u32::from_le_bytes(self.number(message, self.stamp_at + 4));
        Stamp::from_sec_nanosec(sec, nanosec).unwrap_or_default()
    }

    /// The run of the node that made a message; 0 if no node did.
    pub fn run(&self, message: &[u8]) -> u64 {
        self.run_at.map_or(0, |at| u64::from_le_bytes(self.number(message, at)))
    }

    /// The number of the epoch of a message's tick.
    pub fn epoch(&self, message: &[u8]) -> u64 {
        self.run_at.map_or(0, |at| u64::from_le_bytes(self.number(message, at + 8)))
    }

    /// The number of a message's tick.
    pub fn tick(&self, message: &[u8]) -> u64 {
        u64::from_le_bytes(self.number(message, self.tick_at))
    }

    /// The digest of a message; 0 if it has none.
    pub fn digest(&self, message: &[u8]) -> u64 {
        u64::from_le_bytes(self.number(message, self.digest_at))
    }

    /// The bytes of a number, the least significant first.
    fn number<const N: usize>(&self, message: &[u8], at: usize) -> [u8; N] {
        let number = message[at..].first_chunk().copied().unwrap_or([0; N]);
        self.ordered(number)
    }

    fn ordered<const N: usize>(&self, mut number: [u8; N]) -> [u8; N] {
        if self.big_endian {
            number.reverse();
        }
        number
    }

    /// The numbers of a range, each as little-endian bytes.
    pub(super) fn numbers<'a, const N: usize>(
        &'a self,
        message: &'a [u8],
        range: Range<usize>,
    ) -> impl Iterator<Item = [u8; N]> + 'a {
        message[range].as_chunks().0.iter().map(|number| self.ordered(*number))
    }
}

impl SegmentPlaces {
    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Ranges of the steps' fields, field by field.
    pub(super) fn step_ranges(&self) -> [Range<usize>; STEP_FIELDS.len()] {
        std::array::from_fn(|field| {
            let at = self.steps_at[field];
            at..at + STEP_FIELDS[field].1 * self.steps()
        })
    }

    /// Writes what is known of a step.
    pub(super) fn put_step(&self, message: &mut [u8], step: usize, state: StepState) {
        let [valid_at, target_at, age_at, count_at, inputs_at] = self.steps_at;
        let StepState { valid, target, age_ns, count, inputs_valid } = state;
        put(message, valid_at + step, &[u8::from(valid)]);
        put(message, target_at + 8 * step, &target.nanos().to_le_bytes());
        put(message, age_at + 8 * step, &age_ns.to_le_bytes());
        put(message, count_at + 4 * step, &count.to_le_bytes());
        put(message, inputs_at + 4 * step, &inputs_valid.to_le_bytes());
    }
}

fn put(message: &mut [u8], at: usize, bytes: &[u8]) {
    message[at..at + bytes.len()].copy_from_slice(bytes);
}
