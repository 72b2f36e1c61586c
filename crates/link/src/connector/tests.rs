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
    let (made, stops) = (Cell::new(0), Cell::new(false));
    let mut connecting = Connecting::new(orders, || stops.get(), || made.set(made.get() + 1));
    let ended = Arc::new(Mutex::new(0));
    assert_eq!(connecting.step(), Ok(Next::Woken));
    connector.connect();
    connector.connect();
    assert_eq!(connecting.step(), Ok(Next::At(time.source().monotonic())));
    assert_eq!((connecting.step(), made.get()), (Ok(Next::Woken), 1), "it was pending");
    connector.connect();
    connector.end(Part(Arc::clone(&ended)));
    let due = time.source().monotonic() + LINGER;
    assert!(matches!(connecting.step(), Ok(Next::At(_))));
    assert_eq!((connecting.step(), made.get()), (Ok(Next::At(due)), 2));
    time.advance(LINGER.saturating_sub(MS));
    assert_eq!((connecting.step(), *lock(&ended)), (Ok(Next::At(due)), 0));
    time.advance(MS);
    assert_eq!((connecting.step(), *lock(&ended)), (Ok(Next::At(due)), 1));
    // At the end of the node, nothing lingers and no connection is made.
    connector.end(Part(Arc::clone(&ended)));
    connector.connect();
    stops.set(true);
    assert!(matches!(connecting.step(), Ok(Next::At(_))) && *lock(&ended) == 2);
    assert!(matches!(connecting.step(), Ok(Next::At(_))) && made.get() == 2);
    drop(connector);
    assert_eq!(connecting.step(), Ok(Next::Done));
}
