use std::cell::Cell;

use super::*;
use robocache_ops::time::Stamp;
use robocache_runtime::VirtualTime;

const MS: Duration = Duration::from_millis(1);

/// Counts the ends of its clones.
#[derive(Clone)]
struct Part(Arc<Mutex<u32>>);

impl Drop for Part {
    fn drop(&mut self) {
        *lock(&self.0) += 1;
    }
}

#[test]
fn a_connection_is_made_once_and_what_it_replaces_ends_a_second_later() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let (connector, orders) = Connector::new(time.source());
    let made = Cell::new(0);
    let stops = Cell::new(false);
    let mut connecting = Connecting::new(orders, || stops.get(), || made.set(made.get() + 1));
    let ended = Arc::new(Mutex::new(0));
    assert_eq!(connecting.step(), Ok(Next::Woken));
    assert_eq!([connector.connect(), connector.connect()], [true, false]);
    assert_eq!(connecting.step(), Ok(Next::At(time.source().monotonic())));
    assert_eq!((connecting.step(), made.get()), (Ok(Next::Woken), 1), "it was pending");
    assert!(connector.connect());
    connector.end(Part(Arc::clone(&ended)));
    let due = time.source().monotonic() + LINGER;
    let now = time.source().monotonic();
    assert_eq!([connecting.step(), connecting.step()], [Ok(Next::At(now)); 2]);
    assert_eq!((connecting.step(), made.get()), (Ok(Next::At(due)), 2));
    time.advance(LINGER.saturating_sub(MS));
    assert_eq!((connecting.step(), *lock(&ended)), (Ok(Next::At(due)), 0));
    time.advance(MS);
    assert_eq!((connecting.step(), *lock(&ended)), (Ok(Next::At(due)), 1));
    assert_eq!(connecting.step(), Ok(Next::Woken));
    // At the end of the node, nothing lingers and no connection is made.
    connector.end(Part(Arc::clone(&ended)));
    assert!(connector.connect());
    stops.set(true);
    let unmade = connector.make(|| ());
    for _ in 0..4 {
        assert_eq!(connecting.step(), Ok(Next::At(due)));
    }
    assert_eq!((*lock(&ended), made.get(), unmade.take()), (2, 2, None));
    drop(connector);
    assert_eq!(connecting.step(), Ok(Next::Done));
}

#[test]
fn what_is_asked_for_is_made_by_this_thread_while_what_was_replaced_lingers() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let (connector, orders) = Connector::new(time.source());
    let mut connecting = Connecting::new(orders, || false, || {});
    let ended = Arc::new(Mutex::new(0));
    connector.end(Part(Arc::clone(&ended)));
    let due = time.source().monotonic() + LINGER;
    let now = time.source().monotonic();
    assert_eq!([connecting.step(), connecting.step()], [Ok(Next::At(now)), Ok(Next::At(due))]);
    let handed = connector.make(|| 7);
    assert_eq!(handed.take(), None);
    assert_eq!((connecting.step(), handed.take()), (Ok(Next::At(now)), Some(7)));
    // Nobody waits for it any more.
    let count = Arc::clone(&ended);
    drop(connector.make(move || *lock(&count) += 10));
    assert_eq!([connecting.step(), connecting.step()], [Ok(Next::At(now)), Ok(Next::At(due))]);
    assert_eq!(*lock(&ended), 0);
    // Whoever waits for it goes away while it is made: it ends here.
    let count = Arc::clone(&ended);
    let place = Arc::new(Mutex::new(None));
    let waits = Arc::clone(&place);
    *lock(&place) = Some(connector.make(move || {
        drop(lock(&waits).take());
        Part(count)
    }));
    assert_eq!((connecting.step(), *lock(&ended)), (Ok(Next::At(now)), 1));
}

#[test]
fn an_order_that_holds_the_thread_up_is_told_once() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let (connector, orders) = Connector::new(time.source());
    let told = Arc::new(Mutex::new(Vec::new()));
    let hang = || {
        let connector = connector.clone();
        let told = Arc::clone(&told);
        let time = time.clone();
        move || {
            for step in [LONG.saturating_sub(MS), MS, LONG] {
                time.advance(step);
                lock(&told).push(connector.held_up());
            }
        }
    };
    let mut connecting = Connecting::new(orders, || false, hang());
    assert!(connector.connect());
    let made = connector.make(hang());
    assert_eq!([connecting.step(), connecting.step()].map(|step| step.is_ok()), [true; 2]);
    assert_eq!(made.take(), Some(()));
    let expected = ["make a new connection", "make a subscription"];
    assert_eq!(*lock(&told), expected.map(|order| [None, Some(order), None]).as_flattened());
    assert_eq!(connector.held_up(), None);
    assert!(connector.connect(), "the one before was made");
}

#[test]
fn a_new_connection_shows_until_its_parts_are_taken() {
    let time = VirtualTime::starting_at(Stamp::ZERO);
    let (connector, orders) = Connector::new(time.source());
    let parts = Handed::default();
    let connect = || {
        assert!(connector.is_connecting() && !parts.waits());
        assert_eq!(parts.leave(7), None);
    };
    let mut connecting = Connecting::new(orders, || false, connect);
    assert!(!connector.is_connecting());
    assert!(connector.connect() && connector.is_connecting());
    assert!(connecting.step().is_ok());
    assert!(!connector.is_connecting() && parts.waits());
    assert_eq!(parts.take(), Some(7));
    assert!(!parts.waits());
}
