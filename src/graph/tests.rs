use super::*;
use robocache_rcl::{Gid, RclError};

/// A graph of a connection with this number.
#[derive(Debug, PartialEq)]
struct Fake {
    number: u8,
    can_be_watched: bool,
}

/// What a fake tells next.
struct Told(robocache_rcl::Result<bool>);

fn failed() -> RclError {
    RclError { operation: "watch the graph".into(), detail: "no memory".into() }
}

impl Graph for Fake {
    type Changes = Told;

    fn watch(&self) -> robocache_rcl::Result<Told> {
        if self.can_be_watched { Ok(Told(Ok(false))) } else { Err(failed()) }
    }

    fn has_changed(changes: &mut Told) -> robocache_rcl::Result<bool> {
        changes.0.clone()
    }

    fn publishers_of(&self, _: &str) -> robocache_rcl::Result<Vec<PublisherInfo>> {
        Ok(Vec::new())
    }

    fn topics(&self) -> robocache_rcl::Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

fn fake(number: u8) -> Fake {
    Fake { number, can_be_watched: true }
}

fn publisher(number: u8, node: Option<&str>) -> PublisherInfo {
    let (node, ros_type) = (node.map(str::to_owned), "std_msgs/msg/Empty".to_owned());
    PublisherInfo { node, ros_type, reliable: true, transient_local: false, gid: Gid([number; 16]) }
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
    let now = Instant::now();
    let mut watch = GraphWatch::of(fake(1), Vec::new(), now + GRAPH_PERIOD).unwrap();
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
    let now = Instant::now();
    let mut watch = GraphWatch::of(fake(1), Vec::new(), now + GRAPH_PERIOD).unwrap();
    watch.changes = Told(Err(failed()));
    assert!(!watch.is_due(now) && !watch.is_due(now + GRAPH_PERIOD / 2));
    assert!(watch.is_deaf && watch.is_due(now + GRAPH_PERIOD));
    watch.changes = Told(Ok(true));
    assert!(watch.is_due(now) && !watch.is_deaf, "it tells again");
}
