use super::*;
use crate::middleware::MiddlewareError;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_ops::time::Stamp;
use robocache_runtime::{Clock, OfferedQos, VirtualTime};

/// A graph of a connection with this number.
#[derive(Debug, PartialEq)]
struct Fake {
    number: u8,
    can_be_watched: bool,
}

/// The next answer of a fake.
struct Told(Result<bool, MiddlewareError>);

fn failed() -> MiddlewareError {
    MiddlewareError("watch the graph: no memory".into())
}

impl Graph for Fake {
    type Changes = Told;

    fn watch(&self) -> Result<Told, MiddlewareError> {
        if self.can_be_watched { Ok(Told(Ok(false))) } else { Err(failed()) }
    }

    fn has_changed(changes: &mut Told) -> Result<bool, MiddlewareError> {
        changes.0.clone()
    }

    fn publishers_of(&self, _: &str) -> Result<Vec<(PublisherId, PublisherSeen)>, MiddlewareError> {
        Ok(vec![publisher(self.number, Some("/arm"))])
    }

    fn topics(&self) -> Result<Vec<(String, String)>, MiddlewareError> {
        Ok(Vec::new())
    }
}

fn fake(number: u8) -> Fake {
    Fake { number, can_be_watched: true }
}

fn publisher(number: u8, node: Option<&str>) -> (PublisherId, PublisherSeen) {
    let node = node.map(str::to_owned);
    let ros_type = "geometry_msgs/msg/WrenchStamped".to_owned();
    let offers = OfferedQos { reliable: true, transient_local: false };
    (PublisherId([number; 16]), PublisherSeen { node, ros_type, offers })
}

/// Watches the first graph for a node with one input. Its first reading is over.
fn watch() -> (GraphWatch<Fake>, VirtualTime, Handed<Fake>) {
    let text =
        "rate_hz: 10\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}}";
    let config = config::parse(text, "test").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let clock = Clock::system(config.grid, time.source());
    let runtime = Arc::new(Runtime::new(Pipeline::new(config, backend).unwrap(), clock));
    let (connector, _) = Connector::new(time.source());
    let topics = vec!["/w".to_owned()];
    let parts = Handed::default();
    let mut watch =
        GraphWatch::new(fake(1), parts.clone(), topics, None, runtime, connector).unwrap();
    assert_eq!(watch.step(), Ok(Next::At(time.source().monotonic() + LOOK)));
    (watch, time, parts)
}

#[test]
fn publishers_that_are_known_count_until_they_are_found() {
    let known = vec![publisher(1, Some("/arm")), publisher(2, Some("/hand"))];
    assert_eq!(with_known(vec![], known.clone()), known);
    let found = vec![publisher(2, None), publisher(3, Some("/new"))];
    let expected =
        [publisher(2, Some("/hand")), publisher(3, Some("/new")), publisher(1, Some("/arm"))];
    assert_eq!(with_known(found, known), expected);
}

#[test]
fn a_connection_that_cannot_be_watched_leaves_the_one_before() {
    let (mut watch, time, _) = watch();
    let now = time.source().monotonic();
    let broken = Fake { number: 2, can_be_watched: false };
    let (ends, changes) = watch.move_to(broken, now);
    assert_eq!((ends.number, changes.is_none(), watch.node.number), (2, true, 1));
    assert!(!watch.is_due(now) && watch.is_due(now + GRAPH_PERIOD), "as before");
    // The next one is watched, and read at once.
    let (ends, changes) = watch.move_to(fake(3), now);
    assert_eq!((ends.number, changes.is_some(), watch.node.number), (1, true, 3));
    assert!(watch.is_due(now));
}

#[test]
fn without_word_of_changes_the_graph_is_read_at_times() {
    let (mut watch, time, _) = watch();
    let now = time.source().monotonic();
    watch.changes = Told(Err(failed()));
    assert!(!watch.is_due(now) && !watch.is_due(now + GRAPH_PERIOD / 2));
    assert!(watch.is_deaf && watch.is_due(now + GRAPH_PERIOD));
    watch.changes = Told(Ok(true));
    assert!(watch.is_due(now) && !watch.is_deaf, "it tells again");
}

#[test]
fn a_step_reads_the_graph_of_a_new_connection_and_keeps_who_it_lacks() {
    let (mut watch, time, parts) = watch();
    let seen = |watch: &GraphWatch<Fake>| -> Vec<u8> {
        watch.topics[0].publishers.iter().map(|(id, _)| id.0[0]).collect()
    };
    assert_eq!(seen(&watch), [1]);
    assert!(parts.leave(fake(2)).is_none());
    assert_eq!(watch.step(), Ok(Next::At(time.source().monotonic() + LOOK)));
    assert_eq!((watch.node.number, seen(&watch)), (2, vec![2, 1]));
    let input = watch.runtime.inputs().next().unwrap();
    assert!(watch.runtime.input(input).wants.get().reliable);
    time.advance(DISCOVERY);
    watch.step().unwrap();
    assert_eq!(seen(&watch), [2]);
    watch.runtime.stop();
    assert_eq!(watch.step(), Ok(Next::Done));
}
