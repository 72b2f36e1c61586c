//! The node: the real loops of `runtime`, `link` and `data`, on the simulated network.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::checks::{CommandCheck, SharedSeen};
use crate::clock::WorldClock;
use crate::net::{SharedNet, SimGraph, SimSubscription};
use robocache_core::message::TensorMessage;
use robocache_data::recording::Writing;
use robocache_link::{
    CLOCK_TOPIC, Connecting, Connector, GraphWatch, Handed, Middleware, Orders, Recovery, Spinner,
    Subscriptions, Switch,
};
use robocache_ops::sync::lock;
use robocache_runtime::health::{Monitor, Names};
use robocache_runtime::{
    CommandEnds, Next, Publisher, Refused, Runtime, Steps, Witness, stepped_loops,
};

/// Encode workers of the node.
const WORKERS: usize = 2;
/// Time between two looks at the inputs, and between two reports.
const LOOK: Duration = Duration::from_millis(125);
const REPORT: Duration = Duration::from_secs(3);

/// A loop of the node.
pub(crate) struct NodeLoop<'a> {
    pub name: &'static str,
    pub step: Box<dyn FnMut() -> Result<Next, String> + 'a>,
    /// The number of its newest entry in the agenda.
    pub version: u64,
    /// When its next step is due [ns]; `None` if it waits to be woken.
    pub due_ns: Option<u64>,
    /// It does not run before this instant [ns].
    pub stalled_ns: u64,
}

/// A tensor that a policy may answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerable {
    pub run: u64,
    pub epoch: u64,
    pub tick: i64,
    pub stamp: robocache_ops::time::Stamp,
}

/// Tensors on their way to the policy.
pub(crate) type Tensors = Arc<Mutex<Vec<Answerable>>>;

/// The parts of the newest connection that no loop has taken.
#[derive(Clone, Default)]
struct Parts {
    small: Handed<Subscriptions<SimSubscription>>,
    large: Handed<Subscriptions<SimSubscription>>,
    graph: Handed<SimGraph>,
    output: Handed<OutputPart>,
}

/// Publisher of tensors through a connection.
struct OutputPart {
    net: SharedNet,
    connection: usize,
    since_ns: u64,
}

impl OutputPart {
    /// True if the policy has found this publisher.
    fn is_found(&self) -> bool {
        lock(&self.net).policy_found(self.connection, self.since_ns)
    }
}

/// Publishes tensors to the policy.
struct PolicyOutput<'a> {
    runtime: &'a Runtime,
    current: RefCell<Switch<OutputPart>>,
    parts: Handed<OutputPart>,
    connector: Connector,
    tensors: Tensors,
    seen: SharedSeen,
    is_found: Cell<bool>,
}

impl Publisher for PolicyOutput<'_> {
    fn is_read(&self) -> bool {
        let current = &mut *self.current.borrow_mut();
        let parts = (&self.parts, &self.connector);
        current.follow(parts, |next, before| next.is_found() >= before.is_found());
        self.is_found.set(current.current.is_found());
        self.is_found.get()
    }

    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        lock(&self.seen).tensor(self.runtime, message);
        if self.is_found.get() {
            let grid = self.runtime.pipeline.config().grid;
            let stamp = message.stamp();
            lock(&self.tensors).push(Answerable {
                run: message.run(),
                epoch: message.envelope().places().epoch(message.message()),
                tick: grid.tick_at(stamp),
                stamp,
            });
        }
        Ok(())
    }
}

/// Parts of the simulation that the loops of a node share.
pub(crate) struct Surroundings {
    pub net: SharedNet,
    pub clock: WorldClock,
    pub seen: SharedSeen,
    pub tensors: Tensors,
    pub middleware: Middleware,
    pub sent: Arc<AtomicU64>,
}

/// Makes the loops of a node.
pub(crate) fn loops<'a>(
    runtime: &'a Arc<Runtime>,
    of: &Surroundings,
    writing: Writing,
) -> Result<Vec<NodeLoop<'a>>, String> {
    let (connector, orders) = Connector::new(of.clock.source().clone());
    let parts = Parts::default();
    let connection = connection(runtime, &of.net);
    let output = PolicyOutput {
        runtime,
        current: RefCell::new(Switch::new(connection.output)),
        parts: parts.output.clone(),
        connector: connector.clone(),
        tensors: Arc::clone(&of.tensors),
        seen: Arc::clone(&of.seen),
        is_found: Cell::new(true),
    };
    let commands = CommandCheck::new(&of.seen, &of.net, &of.sent);
    let ends = CommandEnds { publisher: Box::new(commands), source: None };
    let mut all = Vec::new();
    for stepped in stepped_loops(runtime, output, Some(ends), WORKERS) {
        let mut steps = stepped.steps;
        all.push(node_loop(stepped.name, move || steps.step().map_err(|error| error.to_string())));
    }
    let spinner = |large, first, parts: &Handed<_>| {
        let runtime = Arc::clone(runtime);
        Spinner::new(large, first, parts.clone(), runtime, &of.middleware, connector.clone())
    };
    let mut small = spinner(false, connection.small, &parts.small);
    all.push(node_loop("spin", move || small.step().map_err(|error| error.to_string())));
    let mut large = spinner(true, connection.large, &parts.large);
    all.push(node_loop("spin large", move || large.step().map_err(|error| error.to_string())));
    let topics: Vec<_> = runtime.inputs().map(|id| runtime.input_spec(id).topic.clone()).collect();
    let clock = runtime.clock.is_simulated().then(|| CLOCK_TOPIC.to_owned());
    let newer = parts.graph.clone();
    let own = Arc::clone(runtime);
    let graph = GraphWatch::new(connection.graph, newer, topics, clock, own, connector.clone());
    let mut graph = graph.map_err(|error| error.to_string())?;
    all.push(node_loop("graph", move || {
        let Ok(next) = graph.step();
        Ok(next)
    }));
    all.push(node_loop("report", report(runtime, &of.net, &of.middleware, connector)));
    all.push(node_loop("connect", connect(runtime, &of.net, orders, parts)));
    let mut writing = Some(writing);
    all.push(node_loop("record", move || {
        let Some(mut of) = writing.take() else { return Ok(Next::Done) };
        match of.step() {
            Ok(Next::Done) => of.end(Ok(())),
            Ok(next) => {
                writing = Some(of);
                return Ok(next);
            }
            // A full disk ends the recording, and not the node.
            Err(error) => of.end(Err(error)),
        }
        Ok(Next::Done)
    }));
    Ok(all)
}

fn node_loop<'a>(
    name: &'static str,
    step: impl FnMut() -> Result<Next, String> + 'a,
) -> NodeLoop<'a> {
    NodeLoop { name, step: Box::new(step), version: 0, due_ns: Some(0), stalled_ns: 0 }
}

/// A connection with all that the node has of it.
struct Connected {
    small: Subscriptions<SimSubscription>,
    large: Subscriptions<SimSubscription>,
    graph: SimGraph,
    output: OutputPart,
}

/// Connects, as the node does.
fn connection(runtime: &Runtime, net: &SharedNet) -> Connected {
    let (connection, since_ns) = {
        let mut net = lock(net);
        (net.connect(), net.clock.now_ns())
    };
    let subscribe = |large| {
        let Ok(made) = Subscriptions::new(runtime, large, |wanted| {
            Ok::<_, Infallible>(SimSubscription::new(net, connection, &wanted))
        });
        made
    };
    let small = subscribe(false);
    let large = subscribe(true);
    let graph = SimGraph { net: Arc::clone(net), connection, since_ns };
    let output = OutputPart { net: Arc::clone(net), connection, since_ns };
    Connected { small, large, graph, output }
}

/// The loop *connect*.
fn connect<'a>(
    runtime: &'a Arc<Runtime>,
    net: &SharedNet,
    orders: Orders,
    parts: Parts,
) -> impl FnMut() -> Result<Next, String> + 'a {
    let net = Arc::clone(net);
    let renew = move || {
        lock(&net).renew();
        let Connected { small, large, graph, output } = connection(runtime, &net);
        drop((parts.small.leave(small), parts.large.leave(large)));
        drop((parts.graph.leave(graph), parts.output.leave(output)));
    };
    let mut connecting = Connecting::new(orders, || runtime.stopping(), renew);
    move || {
        let Ok(next) = connecting.step();
        Ok(next)
    }
}

/// The loop *report*: notices standstills and cut-offs, asks for connections, and reports.
fn report<'a>(
    runtime: &'a Arc<Runtime>,
    net: &SharedNet,
    middleware: &Middleware,
    connector: Connector,
) -> impl FnMut() -> Result<Next, String> + 'a {
    let topics = runtime.inputs().map(|id| runtime.input_spec(id).topic.clone()).collect();
    let names = Names { topics, middleware: middleware.name.clone(), remedy: String::new() };
    let mut monitor = Monitor::new(Arc::clone(runtime), names);
    let mut recovery = Recovery::default();
    let cuts_off = middleware.cuts_off;
    let net = Arc::clone(net);
    let mut due = runtime.time.monotonic() + REPORT;
    move || {
        if runtime.stopping() {
            return Ok(Next::Done);
        }
        let now = runtime.time.monotonic();
        let slept = runtime.standstills.awake(Witness::Report);
        monitor.log_held_back();
        if let Some(time) = slept {
            runtime.excuse_silence();
            monitor.stood_still(time);
        }
        let stood = runtime.standstills.newest();
        if cuts_off {
            // A look that failed comes again.
            let _ = recovery.heal(now, stood.is_some(), &connector, || lock(&net).lost_ports());
        }
        if now >= due {
            due = now + REPORT;
            drop(monitor.report());
        }
        Ok(Next::At(now + LOOK))
    }
}
