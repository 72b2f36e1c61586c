//! Ticks compared with the CPU backend, while ticks go on.
//!
//! Every [`EVERY`] ticks the tick thread hands over a copy of its message, made after the tick and
//! with time left before the next one. This thread gives the oracle the same messages and compares
//! byte for byte. What the oracle has to have seen follows from the rules of time:
//!
//! - A vector is interpolated over its history: the oracle gets every one. The tick may be compared
//!   if it began after the subject had a vector stamped at or after its target (tick - lag), which
//!   is the last that it can have read.
//! - An image or a cloud is held: the tick shows the newest one stamped at or before its target and
//!   no other. The oracle gets this one alone, which is two encodes a second and not seventy. The
//!   tick may be compared if it began after the subject had it.
//!
//! A tick for which this does not hold because a message was late served what it had, and is only
//! counted: with a lag of 20 ms it is one in an overloaded machine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::spin::Buffer;
use super::{Soak, Span, What};
use crate::bench::BenchError;
use crate::bench::messages::{CAMERAS, LIDAR, VECTORS};
use crate::bench::pair::{compare, push};
use crate::pipeline::Pipeline;
use crate::time::NANOS_PER_MS;

/// Ticks between two comparisons: a prime, so that they meet every phase of the streams.
pub const EVERY: i64 = 499;

/// A tick may reach this thread so much later than the messages after it \[ns\].
const SLACK_NS: i64 = 100 * NANOS_PER_MS;

/// What this thread hears of, in the order in which it happened.
pub enum Note {
    /// A vector is about to be pushed.
    Vector { stream: usize, stamp_ns: i64, bytes: Vec<u8> },
    /// An image or a cloud is about to go to the encoder.
    Large { stream: usize, stamp_ns: i64, message: Arc<Buffer> },
    /// A tick was served; `settled` is, by stream, up to which stamp the rings were filled when it
    /// began.
    Tick { tick: i64, settled: Vec<i64>, message: Buffer },
}

/// What was compared.
#[derive(Debug, Default)]
pub struct Checked {
    /// Ticks that were equal.
    pub equal: u64,
    /// Ticks that could not be compared, because messages were late.
    pub unsettled: u64,
    /// The tick that was not equal, which is the end.
    pub mismatch: Option<String>,
    /// When.
    pub spans: Vec<Span>,
}

/// A large message that a tick to come may show.
struct Held {
    stamp_ns: i64,
    /// Whether the oracle has it.
    fed: bool,
    message: Arc<Buffer>,
}

/// Gives the oracle what it needs.
pub struct Checker<'a> {
    soak: &'a Soak<'a>,
    oracle: &'a Pipeline,
    lag_ns: i64,
    /// By stream; none for vectors.
    held: Vec<VecDeque<Held>>,
    /// Targets before this instant can no longer be served.
    forgotten_ns: i64,
    checked: Checked,
}

impl<'a> Checker<'a> {
    /// A checker with an oracle in the state of the subject.
    pub fn new(soak: &'a Soak<'a>, oracle: &'a Pipeline) -> Self {
        Checker {
            soak,
            oracle,
            lag_ns: oracle.config().lag_ns,
            held: oracle.config().streams.iter().map(|_| VecDeque::new()).collect(),
            forgotten_ns: i64::MIN,
            checked: Checked::default(),
        }
    }

    /// Compares until there is nothing more to come, or something is not equal.
    pub fn run(mut self, notes: Receiver<Note>) -> Result<Checked, BenchError> {
        for note in notes {
            match note {
                Note::Vector { stream, stamp_ns, bytes } => {
                    push(self.oracle, stream, &bytes)?;
                    self.forget(stamp_ns);
                }
                Note::Large { stream, stamp_ns, message } => {
                    self.held[stream].push_back(Held { stamp_ns, fed: false, message });
                    self.forget(stamp_ns);
                }
                Note::Tick { tick, settled, message } => {
                    let from = self.soak.now();
                    self.check(tick, &settled, &message.bytes)?;
                    let to = self.soak.now();
                    self.checked.spans.push(Span { what: What::Check, from, to });
                    if self.checked.mismatch.is_some() {
                        self.soak.stop.store(true, std::sync::atomic::Ordering::Relaxed);
                        break;
                    }
                }
            }
        }
        Ok(self.checked)
    }

    /// Lets go of what no tick after `now_ns` can show.
    fn forget(&mut self, now_ns: i64) {
        let before = now_ns - self.lag_ns - SLACK_NS;
        self.forgotten_ns = self.forgotten_ns.max(before);
        for held in &mut self.held {
            while held.get(1).is_some_and(|next| next.stamp_ns <= before) {
                held.pop_front();
            }
        }
    }

    fn check(&mut self, tick: i64, settled: &[i64], found: &[u8]) -> Result<(), BenchError> {
        let target = tick * NANOS_PER_MS - self.lag_ns;
        let shown = |held: &VecDeque<Held>| held.iter().rposition(|held| held.stamp_ns <= target);
        let large = || CAMERAS.into_iter().chain([LIDAR]);
        let there = |stream: usize| match shown(&self.held[stream]) {
            Some(at) => self.held[stream][at].stamp_ns <= settled[stream],
            // Nothing but what was there before the start.
            None => true,
        };
        let vectors_are_there = VECTORS.iter().all(|stream| settled[*stream] >= target);
        if target < self.forgotten_ns || !vectors_are_there || !large().all(there) {
            self.checked.unsettled += 1;
            return Ok(());
        }
        for stream in large() {
            if let Some(at) = shown(&self.held[stream])
                && let held = &mut self.held[stream][at]
                && !held.fed
            {
                push(self.oracle, stream, &held.message.bytes)?;
                held.fed = true;
            }
        }
        // A new one each time: nothing is taken over from the tick before.
        let mut expected = self.oracle.new_frame();
        self.oracle.tick(tick, &mut expected)?;
        match compare(&format!("tick {tick}"), found, expected.message()) {
            Ok(()) => self.checked.equal += 1,
            Err(error) => self.checked.mismatch = Some(error.to_string()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::messages::{CAMERA_MS, LIDAR_MS, ROBOT, vectors};
    use crate::bench::pair::parse;
    use crate::bench::soak::spin::{Job, Pool, Robot};
    use crate::layout::Layout;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::time::Instant;

    fn pipeline() -> Pipeline {
        let config = parse(&ROBOT.replace("rate_hz: 100\n", "rate_hz: 1000\n")).unwrap();
        let layout = Layout::new(&config);
        let backend = crate::backend::cpu::CpuBackend::new(&config, &layout).unwrap();
        Pipeline::new(config, Arc::new(backend))
    }

    /// The first instant of an image and a cloud.
    const BOTH_MS: i64 = CAMERA_MS * LIDAR_MS;

    /// A robot's messages up to `end_ms` and then a tick at it, for which `settled` says when the
    /// large streams were.
    fn check(end_ms: i64, settled_ms: i64, spoil: impl FnOnce(&mut [u8])) -> Checked {
        let (subject, oracle) = (pipeline(), pipeline());
        let start = Instant::now();
        let (stop, settled) = (AtomicBool::new(false), Vec::new());
        let soak = Soak { subject: &subject, start, ticks: 0, stop, settled };
        let (send, notes) = mpsc::sync_channel(8192);
        let mut robot = Robot::new(true);
        for ms in 1..=end_ms {
            let stamp_ns = ms * NANOS_PER_MS;
            vectors(ms, |stream, bytes| {
                push(&subject, stream, &bytes)?;
                send.send(Note::Vector { stream, stamp_ns, bytes }).unwrap();
                Ok(())
            })
            .unwrap();
            // Its memory returns only when the checker has run.
            if ms <= end_ms - 250 {
                continue;
            }
            for job in robot.large(ms).map(Option::unwrap) {
                let Job { stream, message, .. } = job;
                if ms <= settled_ms {
                    push(&subject, stream, &message.bytes).unwrap();
                }
                send.send(Note::Large { stream, stamp_ns, message }).unwrap();
            }
        }
        let mut frame = subject.new_frame();
        subject.tick(end_ms, &mut frame).unwrap();
        let copy = |mut bytes: Vec<u8>| {
            bytes.copy_from_slice(frame.message());
            spoil(&mut bytes);
            bytes
        };
        let message = Pool::new(1, frame.message().len()).fill(copy).unwrap();
        let mut settled = vec![end_ms * NANOS_PER_MS; 6];
        settled[..3].fill(settled_ms * NANOS_PER_MS);
        send.send(Note::Tick { tick: end_ms, settled, message }).unwrap();
        drop(send);
        Checker::new(&soak, &oracle).run(notes).unwrap()
    }

    #[test]
    fn a_tick_is_compared_once_what_it_shows_is_known() {
        // The target is the instant of an image and of a cloud.
        let at = BOTH_MS + 20;
        let checked = check(at, at, |_| {});
        assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (1, 0, None));
        // What came after the target does not matter.
        let checked = check(at, BOTH_MS, |_| {});
        assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (1, 0, None));
        let checked = check(at, BOTH_MS - 1, |_| {});
        assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (0, 1, None));
    }

    #[test]
    fn another_bit_is_a_mismatch() {
        for at in [3000, 700_000, -1] {
            let checked = check(150, 150, |bytes| {
                let at = usize::try_from(at).unwrap_or(bytes.len() - 1);
                bytes[at] ^= 1;
            });
            assert_eq!((checked.equal, checked.unsettled), (0, 0));
            let found = checked.mismatch.unwrap();
            assert!(found.starts_with("tick 150: expected the bits of the CPU backend"), "{found}");
        }
    }
}
