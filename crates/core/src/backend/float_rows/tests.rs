use std::sync::Arc;
use std::sync::mpsc::channel;

use super::*;
use robocache_testing::received;

#[test]
fn a_tick_reads_a_row_that_a_plan_is_blending() {
    let text = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, \
                max_age_ms: 50}}";
    let config = crate::config::parse(text, "test.yaml").unwrap();
    let rows = Arc::new(FloatRows::new(config.streams.first().unwrap(), &[Lane::Linear], None));
    rows.store(Slot::new(0), &[7.0]);
    let (sender, receiver) = channel();
    let other = Arc::clone(&rows);
    rows.with(Value::Row(Slot::new(0)), &mut [0.0], |_| {
        std::thread::spawn(move || {
            other.serve(Value::Row(Slot::new(0)), &mut [0.0], |row| sender.send(row[0]).unwrap());
        });
        assert_eq!(received("the row", &receiver), 7.0);
    });
}
