//! The world around the node, event by event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agenda::Agenda;
use crate::checks::{SharedSeen, all_are_heard, losses_add_up};
use crate::clock::{START, WorldClock};
use crate::faults::{Fault, Occurrence, Plan};
use crate::net::{CHUNKS, MS, S, Shared, Transport, Wakes};
use crate::node::{Answerable, NodeLoop, Surroundings, Tensors};
use crate::robot::{self, Kind, Said, Source, UNIT_NS};
use crate::trace::Trace;
use robocache_core::cdr::Writer;
use robocache_core::command::SentChunk;
use robocache_data::recording::McapRecorder;
use robocache_link::{CHUNK_TYPE, CLOCK_TOPIC};
use robocache_ops::random::Random;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::{Next, OfferedQos, Runtime};

/// Events of a run, more than which it does not end.
const MOST_EVENTS: u64 = 3_000_000;
/// Time between two messages on `/clock`.
const CLOCK_NS: u64 = 20 * MS;
/// In this time at the end of a run no message is lost.
pub(crate) const LAST_NS: u64 = 3 * S;
/// Where a simulator's clock begins.
pub(crate) const SIM_START: Stamp = Stamp::from_nanos(1000 * S as i64);
/// Rows of a chunk, and the time between them, as configured.
const ROWS: usize = 20;
const ROW_NS: i64 = 50 * MS as i64;

enum Happening {
    Step { of: usize, version: u64 },
    Net(Transport),
    Measure(usize),
    SimClock,
    Occur(usize),
    Resume,
    Begin { source: usize, other_qos: bool },
    Play,
    Answer(Answerable),
    PolicyBegins,
    Operator,
    Calm,
    End,
}

/// The clock of a robot, or of a simulator.
struct Time {
    simulated: bool,
    pass: u64,
    /// When the pass began [ns].
    since_ns: u64,
    /// When the simulator was paused.
    paused_ns: Option<u64>,
}

pub(crate) struct World<'a> {
    plan: &'a Plan,
    runtime: &'a Runtime,
    clock: WorldClock,
    net: Shared,
    seen: SharedSeen,
    agenda: Agenda<Happening>,
    pub trace: Trace,
    draw: Random,
    pub loops: Vec<NodeLoop<'a>>,
    sources: Vec<Source>,
    time: Time,
    clock_publisher: Option<usize>,
    policy: Option<usize>,
    answering: bool,
    chunks: u64,
    tensors: Tensors,
    stopped_ns: Option<u64>,
    is_full: Arc<AtomicBool>,
    pub standstills: u64,
    pub choices: u64,
    heals: bool,
}

fn sources(plan: &Plan) -> Vec<Source> {
    let mut draw = Random::keyed(plan.seed, [0x50, 0]);
    let place = |kind: Kind| {
        let is_remote = draw.below(3) == 0;
        let ahead_ns = draw.below(2 * S) as i64 - S as i64;
        // A clock that is not this machine's tells nothing of the passes of this one.
        let may = plan.has(Fault::OtherMachine) && !plan.has(Fault::SetClock);
        let placed =
            if may && is_remote && kind != Kind::Tf { (true, ahead_ns) } else { (false, 0) };
        Source::new(kind, placed)
    };
    Kind::ALL.into_iter().map(place).collect()
}

impl<'a> World<'a> {
    /// A world before its first event.
    pub(crate) fn new(
        plan: &'a Plan,
        runtime: &'a Runtime,
        of: &Surroundings,
        (loops, is_full): (Vec<NodeLoop<'a>>, Arc<AtomicBool>),
    ) -> Self {
        World {
            plan,
            runtime,
            clock: of.clock.clone(),
            net: Arc::clone(&of.net),
            seen: Arc::clone(&of.seen),
            agenda: Agenda::new(plan.seed),
            trace: Trace::new(),
            draw: Random::new(plan.seed ^ 0x0D12),
            loops,
            sources: sources(plan),
            time: Time { simulated: plan.simulated, pass: 0, since_ns: 0, paused_ns: None },
            clock_publisher: None,
            policy: None,
            answering: false,
            chunks: 0,
            tensors: Arc::clone(&of.tensors),
            stopped_ns: None,
            is_full,
            standstills: 0,
            choices: 0,
            // Without numbers nothing is cut off.
            heals: of.middleware.cuts_off || !plan.rules.numbers,
        }
    }
}

impl World<'_> {
    /// Enters what begins by itself.
    pub(crate) fn begin(&mut self) {
        for of in 0..self.loops.len() {
            let at = self.draw.below(MS);
            self.schedule(of, at);
        }
        for source in 0..self.sources.len() {
            let at = self.draw.below(300 * MS);
            self.agenda.enter(at, Happening::Begin { source, other_qos: false });
            self.agenda.enter(at + 1 + self.draw.below(50 * MS), Happening::Measure(source));
        }
        if self.time.simulated {
            let qos = (OfferedQos { reliable: true, transient_local: false }, 10);
            let of = (CLOCK_TOPIC, "rosgraph_msgs/msg/Clock");
            self.clock_publisher = Some(lock(&self.net).advertise(of, qos, (false, 0)));
            self.agenda.enter(self.draw.below(500 * MS), Happening::SimClock);
        }
        self.agenda.enter(self.draw.below(300 * MS), Happening::PolicyBegins);
        self.agenda.enter(S, Happening::Operator);
        for (k, (at, _)) in self.plan.occurrences.iter().enumerate() {
            self.agenda.enter(*at, Happening::Occur(k));
        }
        self.agenda.enter(self.plan.end_ns - LAST_NS, Happening::Calm);
        self.agenda.enter(self.plan.end_ns, Happening::End);
    }

    /// Lets all happen until the end, or until an invariant is broken.
    pub(crate) fn go(&mut self) {
        while let Some((at, happening)) = self.agenda.next() {
            self.choices += 1;
            self.clock.advance_to(at);
            if matches!(happening, Happening::End) {
                return;
            }
            self.happen(happening, at);
            self.carry_on();
            if self.choices > MOST_EVENTS {
                lock(&self.seen).fail("the run does not end".to_owned());
            }
            if lock(&self.seen).violation().is_some() {
                return;
            }
        }
    }

    fn happen(&mut self, happening: Happening, at: u64) {
        match happening {
            Happening::Step { of, version } => self.step(of, version),
            Happening::Net(transport) => {
                if let Transport::Deliver { subscription, sample } = &transport {
                    self.trace.note(
                        self.clock.now_ns(),
                        "deliver",
                        *subscription as u64,
                        sample.number,
                    );
                }
                lock(&self.net).carry(transport);
            }
            Happening::Measure(source) => self.measure(source, at),
            Happening::SimClock => self.tell_clock(),
            Happening::Occur(k) => self.occur(self.plan.occurrences[k].1),
            Happening::Resume => self.resume(),
            Happening::Begin { source, other_qos } => {
                self.sources[source].begin(&mut lock(&self.net), other_qos);
                self.trace.note(self.clock.now_ns(), "begin", source as u64, 0);
                if self.sources[source].kind == Kind::Mark {
                    self.publish(source);
                }
            }
            Happening::Play => {
                if let Some(paused) = self.time.paused_ns.take() {
                    self.time.since_ns += self.clock.now_ns() - paused;
                }
            }
            Happening::Answer(tensor) => self.answer(tensor),
            Happening::PolicyBegins => {
                let qos = (OfferedQos { reliable: true, transient_local: false }, 10);
                let policy = lock(&self.net).advertise((CHUNKS, CHUNK_TYPE), qos, (false, 0));
                (self.policy, self.answering) = (Some(policy), false);
            }
            Happening::Operator => {
                self.agenda.enter(self.clock.now_ns() + S, Happening::Operator);
                let commands = self.runtime.commands.as_ref();
                if commands.is_some_and(|of| !of.groups[0].seen().enabled)
                    && self.stopped_ns.is_none()
                {
                    // Without measured joints they stay off.
                    let _ = self.runtime.enable_commands();
                }
            }
            Happening::Calm => lock(&self.net).calm(),
            Happening::End => {}
        }
    }

    /// Enters what the network and the node have left to do, and checks what always holds.
    fn carry_on(&mut self) {
        let (due, wakes) = {
            let net = &mut *lock(&self.net);
            (std::mem::take(&mut net.due), std::mem::take(&mut net.wakes))
        };
        for (at, transport) in due {
            self.agenda.enter(at, Happening::Net(transport));
        }
        for wake in wakes {
            self.wake(match wake {
                Wakes::Small => "spin",
                Wakes::Large => "spin large",
            });
        }
        let tensors = std::mem::take(&mut *lock(&self.tensors));
        for tensor in tensors {
            if self.policy.is_some() && !std::mem::replace(&mut self.answering, true) {
                let slow = if self.draw.below(10) == 0 { 700 * MS } else { 0 };
                let at = self.clock.now_ns() + 20 * MS + self.draw.below(150 * MS) + slow;
                self.agenda.enter(at, Happening::Answer(tensor));
            }
        }
        lock(&self.seen).look(self.runtime, &self.net);
    }

    fn schedule(&mut self, of: usize, at: u64) {
        let it = &mut self.loops[of];
        it.version += 1;
        it.due_ns = Some(at);
        self.agenda.enter(at, Happening::Step { of, version: it.version });
    }

    /// Wakes the loops of a name, a drawn moment later.
    fn wake(&mut self, name: &str) {
        for of in 0..self.loops.len() {
            if self.loops[of].name.starts_with(name)
                && (name != "spin" || self.loops[of].name == name)
            {
                let at = self.clock.now_ns() + 1000 + self.draw.below(self.plan.wake_ns);
                if self.loops[of].due_ns.is_none_or(|due| due > at)
                    && self.loops[of].version != u64::MAX
                {
                    self.schedule(of, at);
                }
            }
        }
    }

    fn step(&mut self, of: usize, version: u64) {
        if self.loops[of].version != version {
            return;
        }
        let now = self.clock.now_ns();
        let not_before = self.loops[of].stalled_ns.max(self.stopped_ns.unwrap_or(0));
        if not_before > now {
            let at = not_before + self.draw.below(5 * MS);
            self.schedule(of, at);
            return;
        }
        let before = self.runtime.clock.now().map(|now| now.stamp);
        self.clock.spend(1000 + self.draw.below(20_000));
        let name = self.loops[of].name;
        let next = (self.loops[of].step)();
        let now = self.clock.now_ns();
        self.trace.note(now, name, of as u64, lock(&self.seen).published);
        match next {
            Ok(Next::At(instant)) => {
                let late = self.draw.below(self.plan.wake_ns / 5 + 1);
                self.schedule(of, self.clock.ns_of(instant).max(now) + late);
            }
            Ok(Next::Woken) => self.loops[of].due_ns = None,
            Ok(Next::Done) => (self.loops[of].due_ns, self.loops[of].version) = (None, u64::MAX),
            Err(error) => lock(&self.seen).fail(format!("the loop {name} ended: {error}")),
        }
        let moved = self.time.simulated && self.runtime.clock.now().map(|now| now.stamp) != before;
        for woken in woken_by(name) {
            self.wake(woken);
        }
        if moved {
            self.wake("tick");
            self.wake("command");
        }
    }

    /// The stamp of what is measured now, and when it is of a simulator's clock, which may not run yet.
    fn stamp(&self, source: &Source) -> Stamp {
        let now = self.clock.now_ns();
        let stamp = match self.time.simulated {
            true => {
                let now = self.time.paused_ns.unwrap_or(now);
                SIM_START.offset((now - self.time.since_ns) as i64)
            }
            false if source.is_remote() => START.offset(now as i64),
            false => self.clock.system(),
        };
        Stamp::from_nanos(stamp.nanos().div_euclid(UNIT_NS) * UNIT_NS)
    }

    fn measure(&mut self, source: usize, at: u64) {
        let kind = self.sources[source].kind;
        // It does not depend on what the node does.
        let mut draw = Random::keyed(self.plan.seed, [source as u64, at]);
        let jitter = draw.below(kind.period_ns() / 10);
        self.agenda.enter(at + kind.period_ns() * 19 / 20 + jitter, Happening::Measure(source));
        if self.time.paused_ns.is_none() {
            self.publish(source);
        }
    }

    fn publish(&mut self, source: usize) {
        let of = &self.sources[source];
        let Some(publisher) = of.publisher else { return };
        let mut stamp = self.stamp(of);
        if of.kind == Kind::Tf && self.plan.has(Fault::Transforms) {
            stamp = stamp
                .offset(self.draw.below(700 * MS) as i64 / UNIT_NS * UNIT_NS - 200 * MS as i64);
        }
        let net = &mut *lock(&self.net);
        let said = Said {
            stamp,
            base: if self.time.simulated { SIM_START } else { START },
            pass: self.time.pass,
            publisher,
            number: net.publishers[publisher].number + 1,
        };
        let bytes = robot::message(of.kind, &said);
        net.publish(publisher, bytes);
    }

    fn tell_clock(&mut self) {
        self.agenda.enter(self.clock.now_ns() + CLOCK_NS, Happening::SimClock);
        let (Some(publisher), None) = (self.clock_publisher, self.time.paused_ns) else { return };
        let now = self.clock.now_ns() - self.time.since_ns;
        let mut writer = Writer::new();
        writer.stamp(SIM_START.offset(now as i64));
        lock(&self.net).publish(publisher, writer.finish());
    }

    fn answer(&mut self, tensor: Answerable) {
        self.answering = false;
        let Some(policy) = self.policy else { return };
        self.chunks += 1;
        let names = ["a", "b"].map(str::to_owned);
        let turn = self.draw.unit() * 4.0;
        let value = |row: usize, joint: usize| {
            let at = tensor.stamp.offset(row as i64 * ROW_NS).nanos() % (3600 * S as i64);
            ((at as f64 / 1e9 + turn + joint as f64).sin() * 2.0) as f32
        };
        let values: Vec<f32> = (0..ROWS).flat_map(|row| [value(row, 0), value(row, 1)]).collect();
        let chunk = SentChunk {
            run: tensor.run,
            epoch: tensor.epoch,
            stamp: tensor.stamp,
            tick: tensor.tick,
            sequence: self.chunks,
            group: "arm",
            names: &names,
            values: &values,
            reference: &[],
        };
        lock(&self.net).publish(policy, chunk.to_cdr(Vec::new()));
    }

    fn occur(&mut self, occurrence: Occurrence) {
        let now = self.clock.now_ns();
        self.trace.note(now, "fault", self.choices, 0);
        match occurrence {
            Occurrence::Stall { turn, ns } => {
                let of = turn as usize % self.loops.len();
                self.loops[of].stalled_ns = now + ns;
            }
            Occurrence::Standstill { ns } if self.stopped_ns.is_none() => {
                self.standstills += 1;
                lock(&self.net).stop();
                self.stopped_ns = Some(now + ns);
                self.agenda.enter(now + ns, Happening::Resume);
            }
            Occurrence::Standstill { .. } => {}
            Occurrence::Suspend { ns } => {
                self.standstills += 1;
                self.clock.suspend(ns);
            }
            Occurrence::CutOff => lock(&self.net).cut_off(),
            Occurrence::SetClock { by_ns } => self.set_clock(by_ns),
            // Who does not hear the clock may hear it again when it is ahead: nobody can tell that it was set back.
            Occurrence::ClockBack if self.time.simulated && !lock(&self.net).is_deaf() => {
                self.next_pass(SIM_START);
                (self.time.since_ns, self.time.paused_ns) = (now, None);
            }
            Occurrence::ClockPause { ns }
                if self.time.simulated && self.time.paused_ns.is_none() =>
            {
                self.time.paused_ns = Some(now);
                self.agenda.enter(now + ns, Happening::Play);
            }
            Occurrence::ClockBack | Occurrence::ClockPause { .. } => {}
            Occurrence::Restart { turn, after_ns, other_qos } => {
                let source = turn as usize % self.sources.len();
                if let Some(publisher) = self.sources[source].publisher.take() {
                    lock(&self.net).end_publisher(publisher);
                    self.agenda.enter(now + after_ns, Happening::Begin { source, other_qos });
                }
            }
            Occurrence::FullDisk => self.is_full.store(true, Ordering::Relaxed),
            Occurrence::HangingDisk { ns } => {
                let record = self.loops.iter().position(|of| of.name == "record");
                record.into_iter().for_each(|of| self.loops[of].stalled_ns = now + ns);
            }
            Occurrence::PolicyEnds { ns } => {
                if let Some(policy) = self.policy.take() {
                    lock(&self.net).end_publisher(policy);
                    self.agenda.enter(now + ns, Happening::PolicyBegins);
                }
            }
        }
    }

    /// Sets the system's clock. Who stands still does not see a step back, and then takes old values for new ones: nobody
    /// can tell them apart.
    fn set_clock(&mut self, by_ns: i64) {
        if self.stopped_ns.is_some() && by_ns < 0 {
            return;
        }
        self.clock.set_by(by_ns);
        if by_ns < -(S as i64) && !self.time.simulated {
            self.next_pass(START);
        }
    }

    fn next_pass(&mut self, base: Stamp) {
        self.time.pass += 1;
        lock(&self.seen).bases.push(base);
    }

    fn resume(&mut self) {
        self.stopped_ns = None;
        lock(&self.net).resume();
        self.trace.note(self.clock.now_ns(), "resume", 0, 0);
    }

    /// Ends the node, and looks at all of the run.
    pub(crate) fn end(&mut self, recorder: &McapRecorder) {
        {
            let (seen, net) = (&mut *lock(&self.seen), &mut *lock(&self.net));
            if seen.violation().is_none() {
                if self.heals {
                    all_are_heard(seen, net, &self.sources);
                }
                losses_add_up(seen, net, self.runtime);
            }
        }
        // Ticks and their outcomes that are on their way.
        self.runtime.stop();
        recorder.finish();
        for of in 0..self.loops.len() {
            let is_record = self.loops[of].name == "record";
            for _ in 0..if is_record { MOST_EVENTS } else { 1 } {
                self.clock.spend(MS / 100);
                match (self.loops[of].step)() {
                    Ok(Next::Done) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
    }
}

/// Loops that may find work after a step of another one.
fn woken_by(name: &str) -> &'static [&'static str] {
    match name {
        "tick" => &["publish"],
        "spin" => &["encode", "connect"],
        "spin large" => &["encode", "connect"],
        "report" | "graph" | "publish" | "command" => &["connect"],
        _ => &[],
    }
}
