//! When each message is sampled, what its stamp says, and when it is sent.

use super::options::{SimOptions, nanos_of_ms, nanos_of_s};
use super::stream::Stream;
use robocache_ops::random::Random;
use robocache_ops::time::{Stamp, TickGrid};
use std::collections::VecDeque;

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorMessage {
    /// The topic.
    pub stream: Stream,
    /// Number of the sample on its grid. In every run its nominal instant is `seq` periods after
    /// the clock's zero.
    pub seq: i64,
    /// When the sensor sampled: the message's content is the truth at this instant. It goes on while
    /// a simulation that was stopped plays again.
    pub sampled: Stamp,
    /// Stamp of the header: `sampled`, unless the sensor's clock is skewed or the simulation plays
    /// again.
    pub stamp: Stamp,
    /// When the message must be sent, on the robot's clock.
    pub send_at: Stamp,
    /// Instant of sending in nanoseconds since the schedule's start. It never decreases, even if the clock
    /// jumps back.
    pub due_ns: i64,
}

/// The faults in the messages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Messages that are never sent.
    pub dropped: u64,
    /// Messages that are sent after their successor.
    pub reordered: u64,
}

/// The events of a run, in the order of sending.
#[derive(Clone, Debug)]
pub struct Schedule {
    options: SimOptions,
    streams: Vec<Stream>,
    start: Stamp,
    end_due_ns: i64,
    span: ClockSpan,
    sources: Vec<DueMessages>,
    faults: [Faults; Stream::ALL.len()],
}

/// A stretch of the run in which the clock runs on without a jump.
#[derive(Clone, Copy, Debug)]
struct ClockSpan {
    /// Due time of the clock's zero.
    zero_due_ns: i64,
    /// Nominal instants in this span are from here \[due ns\]...
    first_due_ns: i64,
    /// ...to before here.
    end_due_ns: i64,
    /// How often the simulation has been stopped before.
    number: i64,
}

impl Schedule {
    /// All streams of `options`, from `start` on the robot's clock.
    pub fn new(options: &SimOptions, start: Stamp) -> Self {
        Self::of_streams(options, start, &Stream::ALL)
    }

    /// As [`Schedule::new`], for some of the streams. Their events do not depend on the others.
    pub fn of_streams(options: &SimOptions, start: Stamp, streams: &[Stream]) -> Self {
        let end_due_ns =
            if options.duration > 0.0 { nanos_of_s(options.duration) } else { i64::MAX };
        let jump_due_ns = options.jump_back_at.map_or(i64::MAX, nanos_of_s);
        let play_ns = options.play_ns().unwrap_or(i64::MAX);
        let span = ClockSpan {
            zero_due_ns: -start.nanos(),
            first_due_ns: 0,
            end_due_ns: end_due_ns.min(jump_due_ns).min(play_ns),
            number: 0,
        };
        let mut schedule = Schedule {
            options: options.clone(),
            streams: streams.to_vec(),
            start,
            end_due_ns,
            span,
            sources: Vec::new(),
            faults: [Faults::default(); Stream::ALL.len()],
        };
        schedule.enter_span();
        schedule
    }

    /// True if a message that is far too late is not sent.
    pub(super) fn skips(&self) -> bool {
        !self.options.no_skip
    }

    /// The faults of a stream so far.
    pub fn faults(&self, stream: Stream) -> Faults {
        self.faults[stream as usize]
    }

    fn enter_span(&mut self) {
        let first = Stamp::from_nanos(self.span.first_due_ns - self.span.zero_due_ns);
        let source = |&stream: &Stream| {
            let grid = self.options.grid(stream)?;
            // The first tick at or after the span's start.
            let next = grid.tick_at(first.offset(-1)) + 1;
            Some(DueMessages {
                stream,
                grid,
                next,
                last_due_ns: 0,
                held: None,
                ready: VecDeque::new(),
            })
        };
        self.sources = self.streams.iter().filter_map(source).collect();
    }

    /// Enters the span after the clock's jump. Returns false if there is no jump ahead.
    fn leave_span(&mut self) -> bool {
        if let Some(play_ns) = self.options.play_ns() {
            return self.play_again(play_ns);
        }
        let jump_due_ns = self.span.end_due_ns;
        if self.span.first_due_ns > 0 || jump_due_ns >= self.end_due_ns {
            return false;
        }
        self.span = ClockSpan {
            zero_due_ns: self.span.zero_due_ns + nanos_of_s(self.options.jump_back_by),
            first_due_ns: jump_due_ns,
            end_due_ns: self.end_due_ns,
            number: 0,
        };
        self.enter_span();
        true
    }

    /// Enters the span in which the simulation plays again, and its clock from its start. Returns
    /// false if the run ends before.
    fn play_again(&mut self, play_ns: i64) -> bool {
        let stopped_ns = nanos_of_s(self.options.stopped_s * self.options.speed);
        let first_due_ns = self.span.end_due_ns.saturating_add(stopped_ns);
        if first_due_ns >= self.end_due_ns {
            return false;
        }
        self.span = ClockSpan {
            zero_due_ns: first_due_ns - self.start.nanos(),
            first_due_ns,
            end_due_ns: first_due_ns.saturating_add(play_ns).min(self.end_due_ns),
            number: self.span.number + 1,
        };
        self.enter_span();
        true
    }
}

impl Iterator for Schedule {
    type Item = SensorMessage;

    fn next(&mut self) -> Option<SensorMessage> {
        loop {
            let rules = Rules { options: &self.options, start: self.start, span: self.span };
            for source in &mut self.sources {
                source.fill(&rules, &mut self.faults[source.stream as usize]);
            }
            let waiting = self.sources.iter_mut().filter(|source| !source.ready.is_empty());
            let first = waiting.min_by_key(|source| (source.ready[0].due_ns, source.stream));
            if let Some(event) = first.and_then(|source| source.ready.pop_front()) {
                return Some(event);
            }
            if !self.leave_span() {
                return None;
            }
        }
    }
}

/// One stream's messages in order of sending.
#[derive(Clone, Debug)]
struct DueMessages {
    stream: Stream,
    grid: TickGrid,
    next: i64,
    last_due_ns: i64,
    /// A message that waits for its successor.
    held: Option<SensorMessage>,
    ready: VecDeque<SensorMessage>,
}

/// Rules that turn a nominal instant into an event.
struct Rules<'a> {
    options: &'a SimOptions,
    start: Stamp,
    span: ClockSpan,
}

impl DueMessages {
    /// Makes one event ready, or two in the wrong order, unless the span has no more.
    fn fill(&mut self, rules: &Rules, faults: &mut Faults) {
        while self.ready.is_empty() {
            let nominal = self.grid.stamp_of(self.next);
            if nominal.nanos().saturating_add(rules.span.zero_due_ns) >= rules.span.end_due_ns {
                self.ready.extend(self.held.take());
                return;
            }
            let seq = self.next;
            self.next += 1;
            let mut random = Random::keyed(rules.options.seed, [self.stream as u64, seq as u64]);
            let sensor = self.stream != Stream::Clock;
            let mut drawn = |share: f64| random.unit() < share && sensor;
            let dropped = drawn(rules.options.drop_share);
            let reordered = drawn(rules.options.reorder_share);
            if dropped {
                faults.dropped += 1;
                continue;
            }
            let event = rules.event(self, seq, &mut random);
            self.last_due_ns = event.due_ns;
            if let Some(held) = self.held.take() {
                faults.reordered += 1;
                let send_at = event.send_at;
                let due_ns = event.due_ns;
                self.ready.extend([event, SensorMessage { send_at, due_ns, ..held }]);
            } else if reordered {
                self.held = Some(event);
            } else {
                self.ready.push_back(event);
            }
        }
    }
}

impl Rules<'_> {
    fn event(&self, source: &DueMessages, seq: i64, random: &mut Random) -> SensorMessage {
        let nominal = source.grid.stamp_of(seq);
        let stream = source.stream;
        let span = self.span;
        if stream == Stream::Clock {
            let due_ns = nominal.nanos() + span.zero_due_ns;
            let [sampled, stamp, send_at] = [nominal; 3];
            return SensorMessage { stream, seq, sampled, stamp, send_at, due_ns };
        }
        let most = source.grid.period_ns() as f64 * 0.45;
        let stamp_jitter = (nanos_of_ms(self.options.stamp_jitter_ms) as f64).min(most);
        let sampled = nominal.offset((stamp_jitter * random.between(-1.0, 1.0)).round() as i64);
        let send_jitter = nanos_of_ms(self.options.send_jitter_ms) as f64;
        let delay_ns = (send_jitter * random.between(-1.0, 1.0).abs()).round() as i64;
        // A transport keeps the order; swaps are drawn separately. A message that is sampled before
        // the clock jumps also arrives before the jump.
        let due_ns = (sampled.nanos() + span.zero_due_ns)
            .saturating_add(delay_ns)
            .max(source.last_due_ns)
            .clamp(span.first_due_ns, span.end_due_ns);
        let send_at = Stamp::from_nanos(due_ns - span.zero_due_ns);
        let stamp = self.skewed(stream, sampled);
        // The robot moves on, while its clock starts again.
        let moved_ns = self.options.play_ns().map_or(0, |play_ns| span.number * play_ns);
        SensorMessage { stream, seq, sampled: sampled.offset(moved_ns), stamp, send_at, due_ns }
    }

    fn skewed(&self, stream: Stream, sampled: Stamp) -> Stamp {
        if self.options.skew_stream != Some(stream) {
            return sampled;
        }
        let drift_ns = sampled.since(self.start) as f64 * self.options.skew_ppm * 1e-6;
        sampled.offset(nanos_of_ms(self.options.skew_ms)).offset(drift_ns.round() as i64)
    }
}
