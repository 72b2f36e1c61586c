//! The network: publishers, connections, subscriptions, and the paths between them, as Fast DDS treats them.
//!
//! What the model knows of Fast DDS:
//!
//! - **It finds in two directions.** A publisher and a subscription find each other at instants of their own. A message
//!   before both counts for nobody: a best-effort one is gone, a reliable one comes when both have found each other. A
//!   participant that begins drops the answers of others, which come again up to three seconds later. The others may need most
//!   of a second.
//! - **It numbers.** A reader drops what is older than what it had, and counts what is missing before a message. The count
//!   may come a moment after the message. What its full queue overwrites it does not count.
//! - **It keeps.** A publisher gives its last messages to a subscription that asks for latched ones.
//! - **It cuts off.** If a process stands still for more than one or two seconds, its publishers give its port up. What they
//!   send from then on is gone. When it runs again, the port may be found again, or by nobody and for good. The latter may
//!   also happen if only its receiving threads did not run. A publisher of another machine needs no port.
//! - **It shows that.** A port that nobody finds is lost. It is also lost for a moment while its owner opens it again. To
//!   test what the node does without evidence, some cut-offs show nothing.
//! - **It lets go late.** A subscription counts a publisher that was killed until its lease ends.

mod graph;
mod paths;
mod subscription;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::clock::WorldClock;
use robocache_link::{CLOCK_TOPIC, LostPort};
use robocache_ops::random::Random;
use robocache_runtime::OfferedQos;

pub(crate) use graph::SimGraph;
pub(crate) use paths::Path;
pub(crate) use subscription::{CHUNKS, SimSubscription};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1000 * MS;

/// A publisher that was killed counts for so long.
const LEASE_NS: u64 = 20 * S;
/// Messages that a port holds.
const PORT: usize = 512;
/// Messages of a publisher that may be on their way when the node ends.
const LAST_MESSAGES: u64 = 60;

/// A loop of the node that a message wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakes {
    Small,
    Large,
}

/// How the network treats messages, as the faults of the seed say.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Share of the messages of best effort that are lost.
    pub loss: f64,
    /// Greatest additional delay.
    pub delay_ns: u64,
    /// Share of the answers of discovery that come late.
    pub late_answers: f64,
    /// Share of the takes that fail.
    pub take_errors: f64,
    /// Share of the looks at the ports that fail.
    pub look_errors: f64,
    /// True if messages have numbers.
    pub numbers: bool,
    /// Probability that a long standstill cuts a connection off for good.
    pub cut_off: f64,
    /// True if messages of best effort overtake each other.
    pub swaps: bool,
    /// Share of the messages that come twice.
    pub doubles: f64,
    /// True if a publisher tells nothing when it ends, so that it counts until its lease ends.
    pub killed: bool,
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Sample {
    pub publisher: usize,
    pub number: u64,
    pub bytes: Vec<u8>,
    /// When it was published, by its publisher's clock \[ns\].
    pub published_ns: i64,
}

/// Event of the network in the agenda.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Deliver {
        subscription: usize,
        sample: Arc<Sample>,
    },
    /// A connection receives the next message that waits at its port.
    Port {
        connection: usize,
    },
    /// A publisher has found a subscription.
    Found {
        publisher: usize,
        subscription: usize,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    /// The publisher whose identity it has: itself, or an earlier one.
    identity: usize,
    pub topic: &'static str,
    pub ros_type: &'static str,
    pub offers: OfferedQos,
    depth: usize,
    /// True if it is on another machine, whose clock is ahead by this much.
    pub remote: bool,
    clock_ahead_ns: i64,
    /// Number of its newest message.
    pub number: u64,
    history: VecDeque<Arc<Sample>>,
    /// When it began, and when it published last.
    begun_ns: u64,
    pub last_ns: u64,
    /// When it published each of its messages.
    published_ns: Vec<u64>,
    /// When it ended, and when others know.
    pub ended: Option<(u64, u64)>,
}

impl Publisher {
    /// When it published the message of a number, which counts from 1.
    pub(crate) fn published_ns(&self, number: u64) -> u64 {
        self.published_ns.get(number as usize - 1).copied().unwrap_or(u64::MAX)
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// True if no local publisher finds its port any more.
    pub cut_off: bool,
    /// That port, if the cut-off shows.
    pub lost: Option<LostPort>,
    /// From when until when messages of local publishers are lost.
    broken: Option<(u64, u64)>,
    /// Messages that came while the process stood still, and behind them, each with its subscription.
    port: VecDeque<(usize, Arc<Sample>)>,
    /// Its subscriptions that have not ended.
    living: usize,
    /// When it was made.
    begun_ns: u64,
    /// Its number among those of a life of the node, and the number of that life. So it is the same if a life before made
    /// more connections.
    key: u64,
}

#[derive(Debug)]
pub(crate) struct Sub {
    pub topic: String,
    ros_type: String,
    asks: OfferedQos,
    depth: usize,
    pub connection: usize,
    wakes: Wakes,
    /// Messages that wait, each with its arrival by the system's clock \[ns\].
    queue: VecDeque<(Arc<Sample>, i64)>,
    /// When it was made.
    begun_ns: u64,
    alive: bool,
    /// Lost messages, each with the instant from which the event counts them.
    lost: Vec<(u64, u64)>,
    incompatible: u64,
    events: bool,
}

/// Fates of the messages of one publisher, for the invariants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fates {
    /// Numbers that the node took, in the order of the takes.
    pub taken: Vec<u64>,
    /// The first number that came from a subscription which was made after the publisher had begun.
    pub first_by_later: Option<u64>,
    /// True if no subscription of the node fitted the publisher when it began.
    pub is_unexpected: bool,
    /// Numbers that a full queue overwrote.
    pub overwritten: Vec<u64>,
    /// Numbers that the network lost on the way to a subscription that had been found.
    pub lost: Vec<u64>,
    /// Numbers that the node may lack by chance, and not because of the connection.
    pub drawn: Vec<u64>,
}

/// The network. All parts of it share it.
pub(crate) struct Net {
    pub clock: WorldClock,
    seed: u64,
    pub rules: Rules,
    pub publishers: Vec<Publisher>,
    pub connections: Vec<Connection>,
    pub subscriptions: Vec<Sub>,
    paths: BTreeMap<(usize, usize), Path>,
    /// Events that must be entered into the agenda, each with its instant \[ns\].
    pub due: Vec<(u64, Transport)>,
    /// Loops to wake.
    pub wakes: Vec<Wakes>,
    draw: Random,
    /// True while the node's process stands still, and how often it did.
    stopped: bool,
    stops: u64,
    /// The message that was taken last, until the recorder has seen it: its publisher and number.
    pub taken: Option<(usize, u64)>,
    /// By publisher: what happened to its messages in this life of the node, and in those before.
    fates: Vec<Fates>,
    pub lives: Vec<Vec<Fates>>,
    /// Connections before this life.
    connected: usize,
    /// New connections.
    pub renewed: u64,
    /// New connections that were made although the one before was not cut off.
    pub unfounded: u64,
    /// How often a simulator's clock was set back. That depends on what the node hears.
    pub clock_backs: u64,
    /// Chunks of actions that the node took.
    pub chunks_taken: u64,
    take_failures: u32,
}

/// Share of the cut-offs that show.
const SHOWN: f64 = 0.8;

/// The port that a connection lost at this stop.
fn lost_port(connection: usize, stops: u64) -> LostPort {
    LostPort((connection as u64) << 32 | stops)
}

impl Connection {
    /// Cuts it off for good. A connection that is cut off already has no port to lose.
    fn cut_off(&mut self, mut draw: Random, port: LostPort) {
        if !std::mem::replace(&mut self.cut_off, true) {
            self.lost = (draw.unit() < SHOWN).then_some(port);
        }
    }
}

/// Draws for all connections at a standstill. So it is not chance that a connection fares better than another one.
fn stop_draw(seed: u64, stops: u64) -> Random {
    Random::keyed(seed ^ 0x5709, [stops, 0])
}

/// The network as its users hold it.
pub(crate) type SharedNet = Arc<Mutex<Net>>;

impl Net {
    pub(crate) fn new(seed: u64, clock: WorldClock, rules: Rules) -> Self {
        Net {
            clock,
            seed,
            rules,
            publishers: Vec::new(),
            connections: Vec::new(),
            subscriptions: Vec::new(),
            paths: BTreeMap::new(),
            due: Vec::new(),
            wakes: Vec::new(),
            draw: Random::new(seed ^ 0x004E_4554),
            stopped: false,
            stops: 0,
            taken: None,
            fates: Vec::new(),
            lives: Vec::new(),
            connected: 0,
            renewed: 0,
            unfounded: 0,
            clock_backs: 0,
            chunks_taken: 0,
            take_failures: 0,
        }
    }

    /// Makes a connection of the node.
    pub(crate) fn connect(&mut self) -> usize {
        let key =
            (self.lives.len() as u64) << 32 | (self.connections.len() - self.connected) as u64;
        self.connections.push(Connection {
            cut_off: false,
            lost: None,
            broken: None,
            port: VecDeque::new(),
            living: 0,
            begun_ns: self.clock.now_ns(),
            key,
        });
        self.connections.len() - 1
    }

    /// Begins to publish a topic.
    pub(crate) fn advertise(
        &mut self,
        topic: &'static str,
        ros_type: &'static str,
        offers: OfferedQos,
        depth: usize,
        remote: bool,
        clock_ahead_ns: i64,
    ) -> usize {
        let publisher = self.publishers.len();
        let history = VecDeque::new();
        let number = 0;
        let ended = None;
        let begun_ns = self.clock.now_ns();
        self.fates.push(Fates::default());
        self.publishers.push(Publisher {
            identity: publisher,
            topic,
            ros_type,
            offers,
            depth,
            remote,
            clock_ahead_ns,
            number,
            history,
            begun_ns,
            last_ns: 0,
            published_ns: Vec::new(),
            ended,
        });
        for subscription in 0..self.subscriptions.len() {
            self.meet(publisher, subscription);
        }
        let mut paths = self.paths.range((publisher, 0)..(publisher + 1, 0));
        self.fates[publisher].is_unexpected = paths.next().is_none();
        publisher
    }

    /// Gives a publisher the identity of another one.
    pub(crate) fn identify(&mut self, publisher: usize, as_of: usize) {
        self.publishers[publisher].identity = self.publishers[as_of].identity;
    }

    /// True if two publishers of a topic had the same identity.
    pub(crate) fn has_namesakes(&self, topic: &str) -> bool {
        let mut of_topic = self.publishers.iter().enumerate().filter(|(_, of)| of.topic == topic);
        of_topic.any(|(publisher, of)| of.identity != publisher)
    }

    /// Ends a publisher.
    pub(crate) fn end_publisher(&mut self, publisher: usize) {
        let now = self.clock.now_ns();
        let known = now + if self.rules.killed { LEASE_NS } else { 5 * MS };
        let of = &mut self.publishers[publisher];
        of.ended.get_or_insert((now, known));
        of.history.clear();
    }

    /// Publishes a message.
    pub(crate) fn publish(&mut self, publisher: usize, bytes: Vec<u8>) {
        let published_ns = self.clock.system().nanos() + self.publishers[publisher].clock_ahead_ns;
        let now = self.clock.now_ns();
        let of = &mut self.publishers[publisher];
        of.number += 1;
        of.last_ns = now;
        of.published_ns.push(now);
        let sample = Arc::new(Sample { publisher, number: of.number, bytes, published_ns });
        if of.offers.transient_local {
            if of.history.len() == of.depth {
                of.history.pop_front();
            }
            of.history.push_back(Arc::clone(&sample));
        }
        let paths = self.paths.range((publisher, 0)..(publisher + 1, 0));
        let paths: Vec<_> =
            paths.map(|((_, subscription), path)| (*subscription, path.writer_knows_ns)).collect();
        for (subscription, found_ns) in paths {
            if found_ns <= now {
                self.send(subscription, &sample, now);
            } else if found_ns < now + paths::EDGE_NS {
                self.fates[publisher].drawn.push(sample.number);
            }
        }
    }

    /// The node ends.
    pub(crate) fn node_ends(&mut self) {
        for (of, fates) in self.publishers.iter().zip(&mut self.fates) {
            // It is chance which of the last ones were taken.
            fates.drawn.extend(of.number.saturating_sub(LAST_MESSAGES)..=of.number);
        }
    }

    /// Counts what happens to messages from now on as that of another life of the node.
    pub(crate) fn begin_life(&mut self) {
        let fates = vec![Fates::default(); self.publishers.len()];
        self.lives.push(std::mem::replace(&mut self.fates, fates));
        self.connected = self.connections.len();
    }

    /// From now on nothing goes wrong by chance.
    pub(crate) fn calm(&mut self) {
        let rules = &mut self.rules;
        (rules.loss, rules.delay_ns, rules.take_errors) = (0.0, 0, 0.0);
        rules.look_errors = 0.0;
        (rules.swaps, rules.doubles) = (false, 0.0);
    }

    /// Ends a subscription.
    fn end_subscription(&mut self, subscription: usize) {
        let of = &mut self.subscriptions[subscription];
        self.connections[of.connection].living -= usize::from(std::mem::take(&mut of.alive));
        of.queue.clear();
        self.paths.retain(|(_, of), _| *of != subscription);
    }

    /// Number of subscriptions that have not ended, and of the connections that have one.
    pub(crate) fn living(&self) -> (usize, usize) {
        let living = self.connections[self.connected..].iter().map(|of| of.living);
        living.filter(|living| *living > 0).fold((0, 0), |(all, of), living| (all + living, of + 1))
    }

    /// True if all is received through one connection, and by one subscription each.
    pub(crate) fn is_settled(&self) -> bool {
        let alive = || self.subscriptions.iter().filter(|of| of.alive);
        let mut topics: Vec<_> = alive().map(|of| of.topic.as_str()).collect();
        topics.sort_unstable();
        self.living().1 == 1 && topics.is_sorted_by(|one, other| one < other)
    }

    /// The node's process stands still from now on.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.stops += 1;
        let now = self.clock.now_ns();
        // Two looks of its publishers, a second apart.
        let broken = now + S + stop_draw(self.seed, self.stops).below(S);
        for connection in self.connections.iter_mut().filter(|of| of.living > 0) {
            connection.broken = Some((broken, u64::MAX));
        }
    }

    /// The node's process runs again.
    pub(crate) fn resume(&mut self) {
        self.stopped = false;
        let now = self.clock.now_ns();
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            let Some((broken, _)) = connection.broken.filter(|_| connection.living > 0) else {
                continue;
            };
            connection.broken = None;
            if broken <= now {
                let mut draw = stop_draw(!self.seed, self.stops);
                let is_cut_off = draw.unit() < self.rules.cut_off;
                connection.broken = Some((broken, now + draw.below(200 * MS)));
                if is_cut_off {
                    connection.cut_off(draw, lost_port(at, self.stops));
                }
            }
            if !connection.port.is_empty() {
                self.due.push((now, Transport::Port { connection: at }));
            }
        }
    }

    /// Cuts all connections off, although the node's process runs.
    pub(crate) fn cut_off(&mut self) {
        if self.rules.cut_off == 0.0 {
            return;
        }
        self.stops += 1;
        let now = self.clock.now_ns();
        for (at, connection) in
            self.connections.iter_mut().enumerate().filter(|(_, of)| of.living > 0)
        {
            connection.cut_off(stop_draw(!self.seed, self.stops), lost_port(at, self.stops));
            if connection.broken.is_none_or(|(_, until)| until <= now) {
                connection.broken = Some((now, now));
            }
        }
    }

    /// Ports of the node that nobody finds now, unless the look fails.
    pub(crate) fn lost_ports(&self) -> Result<Vec<LostPort>, &'static str> {
        let now = self.clock.now_ns();
        // The node that does not heal takes no look, and all else happens to it as to the one that does.
        if Random::keyed(self.seed ^ 0x100C, [now, 0]).unit() < self.rules.look_errors {
            return Err("too many open files");
        }
        let port = |(at, of): (usize, &Connection)| {
            let is_broken = of.broken.is_some_and(|(from, until)| (from..until).contains(&now));
            of.lost.or(is_broken.then(|| lost_port(at, self.stops))).filter(|_| of.living > 0)
        };
        Ok(self.connections.iter().enumerate().filter_map(port).collect())
    }

    /// Notes that the node makes a new connection.
    pub(crate) fn renew(&mut self) {
        self.renewed += 1;
        let is_founded = self.connections.last().is_some_and(|of| of.lost.is_some());
        self.unfounded += u64::from(!is_founded);
    }

    /// True if the process stands still, or if its newest connection is cut off.
    pub(crate) fn is_deaf(&self) -> bool {
        self.stopped || self.connections.last().is_some_and(|of| of.cut_off)
    }

    /// True if the node has heard the simulator's clock, and no connection hears it now.
    pub(crate) fn has_lost_clock(&self) -> bool {
        let is_clock = |publisher: usize| self.publishers[publisher].topic == CLOCK_TOPIC;
        let is_taken = |of: &Fates| !of.taken.is_empty();
        let mut clocks = (0..self.publishers.len()).filter(|of| is_clock(*of));
        let now = self.clock.now_ns();
        let hears = |((publisher, subscription), path): (&(usize, usize), &Path)| {
            let sub = &self.subscriptions[*subscription];
            let has_found = path.reader_knows_ns.max(path.writer_knows_ns) <= now;
            is_clock(*publisher)
                && sub.alive
                && has_found
                && !self.connections[sub.connection].cut_off
        };
        clocks.any(|of| is_taken(&self.fates[of])) && !self.paths.iter().any(hears)
    }

    /// True if the newest connection is cut off, and nothing shows that.
    pub(crate) fn is_deaf_unseen(&self) -> bool {
        self.connections.last().is_some_and(|of| of.cut_off && of.lost.is_none())
    }
}
