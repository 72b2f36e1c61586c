//! Messages of every type, from their bytes to rows, and ticks over these rows. The first byte chooses the
//! input of `fuzz/streams.yaml`, and 255 a tick. The second byte is the instant. The rest is the serialized
//! message.

use std::sync::Mutex;

use super::super::streams;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{Arrival, NotTaken, Pipeline, TickOutcome};
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::time::{Epoch, Stamp};

/// The first byte of a tick.
const TICK: u8 = 255;
/// Inputs of a pipeline. Then a new one begins, whose rows and transforms nothing has put ahead.
const LIFE: u32 = 1000;

struct Subject {
    pipeline: Pipeline,
    inputs: Vec<InputId>,
    message: TensorMessage,
    left: u32,
}

impl Subject {
    fn new() -> Self {
        let pipeline = streams::pipeline();
        let inputs = pipeline.config().input_ids().collect();
        Subject { message: pipeline.new_message(), pipeline, inputs, left: LIFE }
    }

    /// Every message is accepted, dropped and counted, or waits.
    fn push(&self, choice: u8, at: u8, message: &[u8]) {
        let input = self.inputs[usize::from(choice) % self.inputs.len()];
        let arrival = Arrival { stamp: instant(at), ..Arrival::default() };
        if let Err(NotTaken::Failed(error)) = self.pipeline.push(input, message, arrival) {
            panic!("{error}");
        }
        let stats = self.pipeline.input_stats(input);
        let taken = stats.accepted.get() + stats.dropped_total();
        assert_eq!(stats.received.get(), taken, "{}", self.pipeline.config().input(input).name);
    }

    /// Checks that each step of a tick fits its segment.
    fn tick(&mut self, at: u8) {
        let stamp = instant(at).unwrap_or(Stamp::ZERO);
        let tick = self.pipeline.config().grid.tick_at(stamp);
        let epoch = Epoch::default();
        let outcome = self.pipeline.tick(tick, epoch, &mut self.message).expect("a tick");
        assert_eq!(outcome, TickOutcome::Ready);
        for (number, segment) in self.pipeline.layout().segments().iter().enumerate() {
            for step in self.message.steps(SegmentId::new(number)) {
                assert!(step.count as usize <= segment.entries(), "{}: {step:?}", segment.name);
                let merges = self.pipeline.config().stream(segment.stream).merge.is_some();
                let says_nothing = step.valid || step.inputs_valid == 0;
                assert!(says_nothing || !merges, "{}: {step:?}", segment.name);
            }
        }
        self.message.seal();
    }
}

/// An instant around that of the seeds; `None` if there is no clock yet.
fn instant(at: u8) -> Option<Stamp> {
    let ms = 10 * (i64::from(at) - 101);
    (at != 0).then(|| streams::STAMP.offset(ms * 1_000_000))
}

pub(crate) fn run(input: &[u8]) {
    static SUBJECT: Mutex<Option<Subject>> = Mutex::new(None);
    let [choice, at, message @ ..] = input else { return };
    let mut subject = SUBJECT.lock().expect("no input before this one has panicked");
    let fresh = subject.take().filter(|subject| subject.left > 0);
    let subject = subject.insert(fresh.unwrap_or_else(Subject::new));
    subject.left -= 1;
    match *choice {
        TICK => subject.tick(*at),
        _ => subject.push(*choice, *at, message),
    }
}
