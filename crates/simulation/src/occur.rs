//! Faults that happen at an instant.

use std::sync::atomic::Ordering;

use crate::life::Life;
use crate::net::S;
use crate::plan::{Again, Occurrence};
use crate::world::{Happening, Turn, World};
use robocache_ops::sync::lock;
use robocache_runtime::STILL;

impl World<'_> {
    pub(super) fn occur(&mut self, occurrence: Occurrence, life: &mut Option<&mut Life<'_>>) {
        let now = self.clock.now_ns();
        self.trace.note(now, "fault", self.choices, 0);
        match occurrence {
            Occurrence::Restart { turn, after_ns, with } => self.end_source(turn, after_ns, with),
            Occurrence::SetClock { by_ns } => self.set_clock(by_ns),
            Occurrence::Suspend { ns } => {
                self.standstills += 1;
                self.clock.suspend(ns);
            }
            // A node that hears the clock again when it is ahead cannot tell that it was set back.
            Occurrence::CutOff | Occurrence::Standstill { .. } if self.passes.is_news(now) => {}
            Occurrence::CutOff => lock(&self.net).cut_off(),
            // That is so also of a node that does not hear the clock now.
            Occurrence::ClockBack if self.passes.simulated && !self.is_deaf_to_clock() => {
                self.passes.begin_again(now);
                lock(&self.net).clock_backs += 1;
                self.tell_passes();
            }
            Occurrence::ClockPause { ns }
                if self.passes.simulated && self.passes.paused_ns.is_none() =>
            {
                self.passes.paused_ns = Some(now);
                self.agenda.enter(now + ns, Happening::Play);
            }
            Occurrence::ClockBack | Occurrence::ClockPause { .. } => {}
            Occurrence::FullDisk => self.is_full.store(true, Ordering::Relaxed),
            Occurrence::PolicyEnds { ns } => {
                if self.policy.end(&mut lock(&self.net)) {
                    self.agenda.enter(now + ns, Happening::PolicyBegins);
                }
            }
            Occurrence::Stall { .. }
            | Occurrence::Standstill { .. }
            | Occurrence::HangingDisk { .. }
            | Occurrence::BackendFails { .. }
            | Occurrence::NodeEnds { .. } => {
                if let Some(life) = life {
                    self.occur_to(life, occurrence, now);
                }
            }
        }
    }

    fn is_deaf_to_clock(&self) -> bool {
        let net = lock(&self.net);
        net.is_deaf() || net.has_lost_clock()
    }

    /// Lets an occurrence happen to a node that runs.
    fn occur_to(&mut self, life: &mut Life<'_>, occurrence: Occurrence, now: u64) {
        match occurrence {
            Occurrence::Stall { turn, ns } => {
                let of = turn as usize % life.loops.len();
                life.loops[of].stalled_ns = now + ns;
            }
            Occurrence::HangingDisk { ns } => {
                let record = life.loops.iter_mut().filter(|of| of.name == "record");
                record.for_each(|of| of.stalled_ns = now + ns);
            }
            _ if self.stopped_ns.is_some() => {}
            Occurrence::Standstill { ns } => {
                // A shorter one is only a pause.
                self.standstills += u64::from(u128::from(ns) >= STILL.as_nanos());
                lock(&self.net).stop();
                self.stopped_ns = Some(now + ns);
                self.agenda.enter(now + ns, Happening::Resume);
            }
            Occurrence::BackendFails { ns } => {
                self.away_ns = ns;
                self.is_broken.store(true, Ordering::Relaxed);
            }
            Occurrence::NodeEnds { ns, killed } => self.end_node(ns, killed),
            _ => {}
        }
    }

    fn end_node(&mut self, away_ns: u64, killed: bool) {
        // What a process that was killed has not written is lost.
        self.is_full.fetch_or(killed, Ordering::Relaxed);
        lock(&self.net).node_ends();
        self.agenda.enter(self.clock.now_ns() + away_ns, Happening::NodeBegins);
        self.turn = Some(Turn::NodeEnds(killed));
    }

    /// A loop of the node failed: that ends the node, and is right if its backend has failed.
    pub(super) fn loop_failed(&mut self, name: &str, error: &str) {
        match self.is_broken.swap(false, Ordering::Relaxed) {
            true => self.end_node(self.away_ns, false),
            false => lock(&self.seen).fail(format!("the loop {name} ended: {error}")),
        }
    }

    fn end_source(&mut self, turn: u64, after_ns: u64, with: Again) {
        let source = turn as usize % self.sources.len();
        if self.sources[source].end(&mut lock(&self.net), with) {
            self.agenda.enter(self.clock.now_ns() + after_ns, Happening::Begin { source });
        }
    }

    /// Sets the system's clock. Who stands still does not see a step back, and then takes old values for new ones: nobody
    /// can tell them apart.
    fn set_clock(&mut self, by_ns: i64) {
        if self.stopped_ns.is_some() && by_ns < 0 {
            return;
        }
        self.clock.set_by(by_ns);
        if by_ns < -(S as i64) && !self.passes.simulated {
            self.passes.set_back();
            self.tell_passes();
        }
    }

    fn tell_passes(&self) {
        lock(&self.seen).bases.clone_from(&self.passes.bases);
    }

    pub(super) fn resume(&mut self) {
        self.stopped_ns = None;
        lock(&self.net).resume();
        self.trace.note(self.clock.now_ns(), "resume", 0, 0);
    }
}
