//! Ticks compared with the CPU backend, while ticks go on.
//!
//! Every [`EVERY`] ticks the tick thread hands over a copy of its tensor, made after the tick and
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

use super::note::{Buffer, Note};
use super::timeline::{Span, Timeline, What};
use crate::BenchError;
use crate::pair::{compare, push};
use robocache::pipeline::Pipeline;
use robocache::spec::InputSpec;
use robocache::time::{Epoch, NANOS_PER_MS};

/// Ticks between two comparisons: a prime, so that they meet every phase of the streams.
pub const EVERY: i64 = 499;

/// A tick may reach this thread so much later than the messages after it \[ns\].
const SLACK_NS: i64 = 100 * NANOS_PER_MS;

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
    soak: &'a Timeline,
    oracle: &'a Pipeline,
    /// The lag of each input's stream.
    lags_ns: Vec<i64>,
    /// By input; none for vectors.
    held: Vec<VecDeque<Held>>,
    /// Targets before this instant can no longer be served.
    forgotten_ns: i64,
    checked: Checked,
}

impl<'a> Checker<'a> {
    /// A checker with an oracle in the state of the subject.
    pub fn new(soak: &'a Timeline, oracle: &'a Pipeline) -> Self {
        let lag_ns = |input: &InputSpec| {
            input.stream.map_or(0, |stream| oracle.config().stream(stream).lag_ns)
        };
        Checker {
            soak,
            oracle,
            lags_ns: oracle.config().inputs.iter().map(lag_ns).collect(),
            held: oracle.config().inputs.iter().map(|_| VecDeque::new()).collect(),
            forgotten_ns: i64::MIN,
            checked: Checked::default(),
        }
    }

    /// Compares until there is nothing more to come, or something is not equal.
    pub fn run(mut self, notes: Receiver<Note>) -> Result<Checked, BenchError> {
        for note in notes {
            match note {
                Note::Vector { input, stamp_ns, bytes } => {
                    push(self.oracle, input.index(), &bytes)?;
                    self.forget(stamp_ns);
                }
                Note::Lost { input, stamp_ns } => {
                    self.held[input.index()].retain(|held| held.stamp_ns != stamp_ns);
                }
                Note::End => break,
                Note::Large { input, stamp_ns, message } => {
                    self.held[input.index()].push_back(Held { stamp_ns, fed: false, message });
                    self.forget(stamp_ns);
                }
                Note::Tick { tick, settled, message } => {
                    let from = self.soak.now();
                    self.check(tick, &settled, &message.bytes)?;
                    let to = self.soak.now();
                    self.checked.spans.push(Span { what: What::Check, from, to });
                    if self.checked.mismatch.is_some() {
                        self.soak.stop();
                        break;
                    }
                }
            }
        }
        Ok(self.checked)
    }

    /// Lets go of what no tick after `now_ns` can show.
    fn forget(&mut self, now_ns: i64) {
        let longest_ns = self.lags_ns.iter().copied().max().unwrap_or(0);
        let before = now_ns - longest_ns - SLACK_NS;
        self.forgotten_ns = self.forgotten_ns.max(before);
        for held in &mut self.held {
            while held.get(1).is_some_and(|next| next.stamp_ns <= before) {
                held.pop_front();
            }
        }
    }

    fn check(&mut self, tick: i64, settled: &[i64], found: &[u8]) -> Result<(), BenchError> {
        let target = |input: usize| tick * NANOS_PER_MS - self.lags_ns[input];
        let shown = |input: usize, held: &VecDeque<Held>| {
            held.iter().rposition(|held| held.stamp_ns <= target(input))
        };
        let there = |input: usize| match shown(input, &self.held[input]) {
            Some(at) => self.held[input][at].stamp_ns <= settled[input],
            // Nothing but what was there before the start.
            None => true,
        };
        let is_large = |input: &usize| self.oracle.config().inputs[*input].is_large();
        let (large, vectors): (Vec<usize>, Vec<usize>) = (0..self.held.len()).partition(is_large);
        let vectors_are_there = vectors.iter().all(|input| settled[*input] >= target(*input));
        let forgotten = (0..self.held.len()).any(|input| target(input) < self.forgotten_ns);
        if forgotten || !vectors_are_there || !large.iter().copied().all(there) {
            self.checked.unsettled += 1;
            return Ok(());
        }
        let at: Vec<_> = large.iter().map(|input| shown(*input, &self.held[*input])).collect();
        for (input, at) in large.into_iter().zip(at) {
            if let Some(at) = at
                && let held = &mut self.held[input][at]
                && !held.fed
            {
                push(self.oracle, input, &held.message.bytes)?;
                held.fed = true;
            }
        }
        // A new one each time: nothing is taken over from the tick before.
        let mut expected = self.oracle.new_message();
        self.oracle.tick(tick, Epoch::default(), &mut expected)?;
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
    use crate::messages::{
        CAMERA_MS, CAMERAS, LIDAR, LIDAR_MS, POINT_STEP, ROBOT, cloud, image, noise, points,
        vectors,
    };
    use crate::pair::parse;
    use crate::soak::note::Pool;
    use robocache::layout::Layout;
    use robocache::ops::image::Encoding;
    use robocache::spec::InputId;
    use robocache::time::Stamp;
    use std::sync::mpsc;

    fn pipeline() -> Pipeline {
        let config = parse(&ROBOT.replace("rate_hz: 100\n", "rate_hz: 1000\n")).unwrap();
        let layout = Layout::new(&config);
        let backend = robocache::backend::cpu::CpuBackend::new(&config, &layout).unwrap();
        Pipeline::new(config, Arc::new(backend)).unwrap()
    }

    /// The first instant of an image and a cloud.
    const BOTH_MS: i64 = CAMERA_MS * LIDAR_MS;

    /// The images and the cloud of an instant.
    fn large(ms: i64, pixels: &[u8], points: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let stamp = Stamp::from_nanos(ms * NANOS_PER_MS);
        let mut messages = Vec::new();
        if ms % CAMERA_MS == 0 {
            let image = |camera: usize| {
                let pixels = &pixels[(ms as usize + camera) % 100..];
                (camera, image(stamp, Encoding::Rgb8, [64, 48], pixels, Vec::new()))
            };
            messages.extend(CAMERAS.map(image));
        }
        if ms % LIDAR_MS == 0 {
            let first = ms as usize % 100 * POINT_STEP;
            let points = &points[first..first + 1000 * POINT_STEP];
            messages.push((LIDAR, cloud(stamp, points, Vec::new())));
        }
        messages
    }

    /// A robot's messages up to `end_ms` and then a tick at it, for which `settled` says when the
    /// large inputs were.
    fn check(end_ms: i64, settled_ms: i64, spoil: impl FnOnce(&mut [u8])) -> Checked {
        check_without(None, end_ms, settled_ms, spoil)
    }

    /// As [`check`], but the large messages of the instant `lost` never become rows.
    fn check_without(
        lost: Option<i64>,
        end_ms: i64,
        settled_ms: i64,
        spoil: impl FnOnce(&mut [u8]),
    ) -> Checked {
        let (subject, oracle) = (pipeline(), pipeline());
        let timeline = Timeline::new(0);
        let (send, notes) = mpsc::sync_channel(8192);
        let (pixels, points) = (noise(64 * 48 * 3, 1), points(2000, POINT_STEP / 4, 14.0));
        let pool = Pool::new(40, 64 << 10);
        for ms in 1..=end_ms {
            let stamp_ns = ms * NANOS_PER_MS;
            vectors(ms, |stream, bytes| {
                push(&subject, stream, &bytes)?;
                let input = InputId::new(stream);
                send.send(Note::Vector { input, stamp_ns, bytes }).unwrap();
                Ok(())
            })
            .unwrap();
            // Its memory returns only when the checker has run.
            if ms <= end_ms - 250 {
                continue;
            }
            for (stream, bytes) in large(ms, &pixels, &points) {
                let input = InputId::new(stream);
                let message = Arc::new(pool.copy(&bytes).unwrap());
                send.send(Note::Large { input, stamp_ns, message }).unwrap();
                if lost == Some(ms) {
                    send.send(Note::Lost { input, stamp_ns }).unwrap();
                } else if ms <= settled_ms {
                    push(&subject, stream, &bytes).unwrap();
                }
            }
        }
        let mut frame = subject.new_message();
        subject.tick(end_ms, Epoch::default(), &mut frame).unwrap();
        let mut bytes = frame.message().to_vec();
        spoil(&mut bytes);
        let message = Pool::new(1, bytes.len()).copy(&bytes).unwrap();
        let mut settled = vec![end_ms * NANOS_PER_MS; 6];
        settled[..3].fill(settled_ms * NANOS_PER_MS);
        send.send(Note::Tick { tick: end_ms, settled, message }).unwrap();
        send.send(Note::End).unwrap();
        Checker::new(&timeline, &oracle).run(notes).unwrap()
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
    fn a_message_that_was_lost_is_not_expected() {
        let checked = check_without(Some(BOTH_MS), BOTH_MS + 20, BOTH_MS + 20, |_| {});
        assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (1, 0, None));
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
