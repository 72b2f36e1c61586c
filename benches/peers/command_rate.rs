//! The peer of benches/commands.py: a node of r2r that publishes 14 numbers at 1,000 Hz until it is ended.
//!
//! It is what a user would write who needs nothing but the rate: a thread that sleeps until each instant, and one message
//! whose memory is used again.

use std::thread;
use std::time::{Duration, Instant};

use r2r::std_msgs::msg::Float64MultiArray;
use r2r::{Context, Node, QosProfile};

const PERIOD: Duration = Duration::from_millis(1);
const JOINTS: usize = 14;

fn main() -> r2r::Result<()> {
    let mut node = Node::create(Context::create()?, "command_rate_peer", "")?;
    let qos = QosProfile::default().keep_last(1).reliable();
    let publisher = node.create_publisher::<Float64MultiArray>("/commands", qos)?;
    let mut message = Float64MultiArray { data: vec![0.0; JOINTS], ..Default::default() };
    let mut due = Instant::now();
    for tick in 0_u64.. {
        let value = (tick as f64 * 1e-3).sin();
        message.data.fill(value);
        publisher.publish(&message)?;
        due += PERIOD;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
