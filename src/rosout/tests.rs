use super::*;
use robocache_ops::time::Stamp;
use robocache_runtime::VirtualTime;
use tracing_subscriber::layer::SubscriberExt;

#[test]
fn events_become_records_with_level_text_and_place() {
    let (layer, records) =
        layer(VirtualTime::starting_at(Stamp::from_nanos(5_000_000_007)).source());
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!(stream = 3, "no message in {} s", 5);
        tracing::error!(target: "robocache_rcl::publisher", "could not publish");
    });
    let log = records.try_recv().unwrap();
    assert_eq!((log.level, log.msg.as_str()), (30, "no message in 5 s stream=3"));
    assert!(log.file.ends_with("tests.rs") && log.line > 0);
    assert_eq!((log.stamp.sec, log.stamp.nanosec), (5, 7));
    assert!(records.try_recv().is_err());
}
