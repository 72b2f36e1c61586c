//! The world around the node, event by event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::agenda::Agenda;
use crate::checks::{SharedSeen, all_are_heard, may_end_ns};
use crate::clock::WorldClock;
use crate::faults::Fault;
use crate::life::Life;
use crate::net::{MS, S, SharedNet, Transport};
use crate::node::{Answerable, Surroundings};
use crate::passes::Passes;
use crate::plan::{LAST_NS, Plan};
use crate::policy::Policy;
use crate::robot::{self, Kind, MessageSource, Said, UNIT_NS};
use crate::trace::Trace;
use robocache_core::cdr::Writer;
use robocache_link::CLOCK_TOPIC;
use robocache_ops::random::Random;
use robocache_ops::sync::lock;
use robocache_runtime::{Next, OfferedQos};

/// Events of a run, more than which it does not end.
const MOST_EVENTS: u64 = 3_000_000;
/// Time between two messages on `/clock`.
const CLOCK_NS: u64 = 20 * MS;
/// Time between two looks whether all is heard again.
const LOOK_NS: u64 = 200 * MS;

/// Share of the messages that have the stamp of the one before, if a sensor has that fault.
const EQUAL_STAMPS: f64 = 0.1;

/// Something that happens at an instant.
pub(crate) enum Happening {
    Step { of: usize, version: u64 },
    Net(Transport),
    Measure(usize),
    SimClock,
    Occur(usize),
    Resume,
    Begin { source: usize },
    Play,
    Answer(Answerable),
    PolicyBegins,
    Operator,
    NodeBegins,
    Calm,
    Look,
    End,
}

/// Reason for which the world waits: the node must be made or be ended, or the run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    NodeBegins,
    /// True if it was killed.
    NodeEnds(bool),
    RunEnds,
}

/// All but the node.
pub(crate) struct World<'a> {
    pub(super) plan: &'a Plan,
    pub(super) clock: WorldClock,
    pub(super) net: SharedNet,
    pub(super) seen: SharedSeen,
    pub(super) agenda: Agenda<Happening>,
    pub trace: Trace,
    draw: Random,
    pub(super) sources: Vec<MessageSource>,
    pub(super) passes: Passes,
    clock_publisher: Option<usize>,
    pub(super) policy: Policy,
    pub(super) stopped_ns: Option<u64>,
    pub(super) is_full: Arc<AtomicBool>,
    pub(super) is_broken: Arc<AtomicBool>,
    /// How long the node is gone after its backend has failed [ns].
    pub(super) away_ns: u64,
    /// Number of the newest step in the agenda.
    version: u64,
    /// The turn that ends the present one.
    pub(super) turn: Option<Turn>,
    /// When the run ends at the latest [ns].
    end_ns: u64,
    pub standstills: u64,
    pub choices: u64,
    pub(super) heals: bool,
}

fn sources(plan: &Plan) -> Vec<MessageSource> {
    let mut draw = Random::keyed(plan.seed, [0x50, 0]);
    let place = |kind: Kind| {
        let is_remote = draw.below(3) == 0;
        let ahead_ns = draw.below(2 * S) as i64 - S as i64;
        // A clock that is not this machine's tells nothing of the passes of this one.
        let may = plan.has(Fault::OtherMachine) && !plan.has(Fault::SetClock);
        let remote = may && is_remote && kind != Kind::Tf;
        MessageSource::new(kind, remote, if remote { ahead_ns } else { 0 })
    };
    Kind::ALL.into_iter().map(place).collect()
}

impl<'a> World<'a> {
    /// A world before its first event. It ends at an instant, or when the plan says so.
    pub(crate) fn new(
        plan: &'a Plan,
        of: &Surroundings,
        passes: Passes,
        ends_ns: Option<u64>,
        is_full: Arc<AtomicBool>,
        is_broken: Arc<AtomicBool>,
    ) -> Self {
        let mut world = World {
            plan,
            clock: of.clock.clone(),
            net: Arc::clone(&of.net),
            seen: Arc::clone(&of.seen),
            agenda: Agenda::new(plan.seed),
            trace: Trace::new(),
            draw: Random::new(plan.seed ^ 0x0D12),
            sources: sources(plan),
            passes,
            clock_publisher: None,
            policy: Policy::new(plan.seed),
            stopped_ns: None,
            is_full,
            is_broken,
            away_ns: 0,
            version: 0,
            turn: None,
            end_ns: ends_ns.unwrap_or(plan.end_ns),
            standstills: 0,
            choices: 0,
            // Without numbers nothing is cut off.
            heals: of.middleware.cuts_off || !plan.rules.numbers,
        };
        world.begin(ends_ns.is_none() && plan.ends_early);
        world
    }

    /// Enters what begins by itself.
    fn begin(&mut self, looks: bool) {
        for source in 0..self.sources.len() {
            let at = self.draw.below(300 * MS);
            self.agenda.enter(at, Happening::Begin { source });
            self.agenda.enter(at + 1 + self.draw.below(50 * MS), Happening::Measure(source));
        }
        if self.passes.simulated {
            let offers = OfferedQos { reliable: true, transient_local: false };
            let ros_type = "rosgraph_msgs/msg/Clock";
            let publisher = lock(&self.net).advertise(CLOCK_TOPIC, ros_type, offers, 10, false, 0);
            self.clock_publisher = Some(publisher);
            self.agenda.enter(self.draw.below(500 * MS), Happening::SimClock);
        }
        self.agenda.enter(self.draw.below(300 * MS), Happening::PolicyBegins);
        self.agenda.enter(S, Happening::Operator);
        for (k, (at, _)) in self.plan.occurrences.iter().enumerate() {
            self.agenda.enter(*at, Happening::Occur(k));
        }
        self.agenda.enter(self.plan.calm_ns, Happening::Calm);
        if looks {
            self.agenda.enter(self.plan.calm_ns + LAST_NS, Happening::Look);
        }
        self.agenda.enter(self.end_ns, Happening::End);
    }

    /// Begins a life of the node.
    pub(crate) fn enter_node(&mut self, life: &mut Life<'_>) {
        for of in 0..life.loops.len() {
            let at = self.clock.now_ns() + self.draw.below(MS);
            self.schedule(life, of, at);
        }
    }

    /// Lets all happen until the node begins or ends, the run ends, or an invariant is broken. There may be no node.
    pub(crate) fn go(&mut self, mut life: Option<&mut Life<'_>>) -> Turn {
        while let Some((at, happening)) = self.agenda.next() {
            self.choices += 1;
            self.clock.advance_to(at);
            let is_step = matches!(happening, Happening::Step { .. });
            self.happen(happening, at, &mut life);
            if let Some(turn) = self.turn.take() {
                return turn;
            }
            self.carry_on(&mut life, is_step);
            if self.choices > MOST_EVENTS {
                lock(&self.seen).fail("the run does not end".to_owned());
            }
            if lock(&self.seen).violation().is_some() {
                break;
            }
        }
        Turn::RunEnds
    }

    fn happen(&mut self, happening: Happening, at: u64, life: &mut Option<&mut Life<'_>>) {
        match happening {
            Happening::Step { of, version } => {
                if let Some(life) = life {
                    self.step(life, of, version);
                }
            }
            Happening::Net(transport) => self.carry(transport),
            Happening::Measure(source) => self.measure(source, at),
            Happening::SimClock => self.tell_clock(),
            Happening::Occur(k) => self.occur(self.plan.occurrences[k].1, life),
            Happening::Resume => self.resume(),
            Happening::Begin { source } => self.begin_source(source),
            Happening::Play => self.passes.play(self.clock.now_ns()),
            Happening::Answer(tensor) => self.policy.answer(tensor, &mut lock(&self.net)),
            Happening::PolicyBegins => self.policy.begin(&mut lock(&self.net)),
            Happening::Operator => self.operate(life),
            Happening::NodeBegins => self.turn = Some(Turn::NodeBegins),
            Happening::Calm => lock(&self.net).calm(),
            Happening::Look => self.look(),
            Happening::End => self.end(),
        }
    }

    fn carry(&mut self, transport: Transport) {
        if let Transport::Deliver { subscription, sample } = &transport {
            let of = (*subscription as u64, sample.number);
            self.trace.note(self.clock.now_ns(), "deliver", of.0, of.1);
        }
        lock(&self.net).carry(transport);
    }

    fn begin_source(&mut self, source: usize) {
        self.sources[source].begin(&mut lock(&self.net));
        self.trace.note(self.clock.now_ns(), "begin", source as u64, 0);
        if self.sources[source].kind == Kind::Mark {
            self.publish(source);
        }
    }

    /// Enables the commands, unless they are on. Without measured joints they stay off.
    fn operate(&mut self, life: &Option<&mut Life<'_>>) {
        self.agenda.enter(self.clock.now_ns() + S, Happening::Operator);
        let (Some(life), None) = (life, self.stopped_ns) else { return };
        let commands = life.runtime.commands.as_ref();
        if commands.is_some_and(|of| !of.groups[0].seen().enabled) {
            let _ = life.runtime.enable_commands();
        }
    }

    /// Ends the run if all is heard again, through one connection.
    fn look(&mut self) {
        let is_heard = {
            let net = lock(&self.net);
            net.is_settled()
                && may_end_ns(&net, &self.sources) <= self.clock.now_ns()
                && all_are_heard(&lock(&self.seen), &net, &self.sources).is_ok()
        };
        match is_heard {
            true => self.turn = Some(Turn::RunEnds),
            false => self.agenda.enter(self.clock.now_ns() + LOOK_NS, Happening::Look),
        }
    }

    /// Ends the run, unless a message has just come that shows losses.
    fn end(&mut self) {
        let may_end_ns = may_end_ns(&lock(&self.net), &self.sources);
        match may_end_ns <= self.clock.now_ns() {
            true => self.turn = Some(Turn::RunEnds),
            false => self.agenda.enter(may_end_ns, Happening::End),
        }
    }

    /// Enters what the network and the node have left to do, and checks what holds after each event.
    fn carry_on(&mut self, life: &mut Option<&mut Life<'_>>, is_step: bool) {
        let wakes = {
            let net = &mut *lock(&self.net);
            for (at, transport) in net.due.drain(..) {
                self.agenda.enter(at, Happening::Net(transport));
            }
            std::mem::take(&mut net.wakes)
        };
        let Some(life) = life else { return };
        for wake in wakes {
            life.takers(wake).into_iter().for_each(|of| self.wake(life, of));
        }
        if !is_step {
            return;
        }
        for tensor in lock(&life.tensors).drain(..) {
            if let Some(later) = self.policy.take() {
                self.agenda.enter(self.clock.now_ns() + later, Happening::Answer(tensor));
            }
        }
        // A latched message that a failing backend refuses is counted nowhere: the node ends soon.
        if !self.is_broken.load(Ordering::Relaxed) {
            lock(&life.seen).look(life.runtime, &self.net);
        }
    }

    fn schedule(&mut self, life: &mut Life<'_>, of: usize, at: u64) {
        self.version += 1;
        let it = &mut life.loops[of];
        (it.version, it.due_ns) = (self.version, Some(at));
        self.agenda.enter(at, Happening::Step { of, version: self.version });
    }

    /// Wakes a loop, a drawn moment later.
    fn wake(&mut self, life: &mut Life<'_>, of: usize) {
        let at = self.clock.now_ns() + 1000 + self.draw.below(self.plan.wake_ns);
        let it = &life.loops[of];
        if it.due_ns.is_none_or(|due| due > at) && it.version != u64::MAX {
            self.schedule(life, of, at);
        }
    }

    fn step(&mut self, life: &mut Life<'_>, of: usize, version: u64) {
        if life.loops[of].version != version {
            return;
        }
        let now = self.clock.now_ns();
        let not_before = life.loops[of].stalled_ns.max(self.stopped_ns.unwrap_or(0));
        if not_before > now {
            let at = not_before + self.draw.below(5 * MS);
            return self.schedule(life, of, at);
        }
        let reading = |life: &Life<'_>| {
            self.passes.simulated.then(|| life.runtime.clock.now().map(|now| now.stamp))
        };
        let before = reading(life);
        self.clock.spend(1000 + self.draw.below(20_000));
        let name = life.loops[of].name;
        let next = (life.loops[of].step)();
        let moved = reading(life) != before;
        let now = self.clock.now_ns();
        self.trace.note(now, name, of as u64, lock(&life.seen).published);
        match next {
            Ok(Next::At(instant)) => {
                let late = self.draw.below(self.plan.wake_ns / 5 + 1);
                self.schedule(life, of, self.clock.ns_of(instant).max(now) + late);
            }
            Ok(Next::Woken) => life.loops[of].due_ns = None,
            Ok(Next::Done) => (life.loops[of].due_ns, life.loops[of].version) = (None, u64::MAX),
            Err(error) => return self.loop_failed(name, &error),
        }
        life.woken(of, moved).for_each(|woken| self.wake(life, woken));
    }

    fn measure(&mut self, source: usize, at: u64) {
        let kind = self.sources[source].kind;
        // It does not depend on what the node does.
        let mut draw = Random::keyed(self.plan.seed, [source as u64, at]);
        let jitter = draw.below(kind.period_ns() / 10);
        self.agenda.enter(at + kind.period_ns() * 19 / 20 + jitter, Happening::Measure(source));
        if self.passes.paused_ns.is_none() {
            self.publish(source);
        }
    }

    fn publish(&mut self, source: usize) {
        let of = &mut self.sources[source];
        let Some(publisher) = of.publisher else { return };
        let (pass, base) = self.passes.present();
        let number = lock(&self.net).publishers[publisher].number + 1;
        let mut equal = Random::keyed(self.plan.seed ^ 0xE9A1, [publisher as u64, number]);
        let is_equal = self.plan.has(Fault::EqualStamps) && equal.unit() < EQUAL_STAMPS;
        let mut stamp = of.next_stamp(pass, self.passes.stamp(of, &self.clock), is_equal);
        if of.kind == Kind::Tf && self.plan.has(Fault::Transforms) {
            stamp = stamp
                .offset(self.draw.below(700 * MS) as i64 / UNIT_NS * UNIT_NS - 200 * MS as i64);
        }
        let said = Said { stamp, base, pass, publisher, number };
        lock(&self.net).publish(publisher, robot::message(of.kind, &said));
    }

    fn tell_clock(&mut self) {
        self.agenda.enter(self.clock.now_ns() + CLOCK_NS, Happening::SimClock);
        let (Some(publisher), None) = (self.clock_publisher, self.passes.paused_ns) else { return };
        let mut writer = Writer::new();
        writer.stamp(self.passes.reading(self.clock.now_ns()));
        lock(&self.net).publish(publisher, writer.finish());
    }
}
