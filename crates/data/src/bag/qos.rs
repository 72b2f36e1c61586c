//! QoS that the publishers of a topic offered.

use serde::Serialize;

use robocache_core::config::node;

/// QoS that a publisher offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// `reliable`, `best_effort`, or what else the bag says.
    pub reliability: String,
    /// `volatile`, `transient_local`, or what else the bag says.
    pub durability: String,
    /// Messages that the middleware keeps; 0 if unknown.
    pub depth: u64,
}

impl Offer {
    /// True if new subscribers get the last messages.
    pub fn is_latched(&self) -> bool {
        self.durability == "transient_local"
    }
}

/// Reads the list that rosbag2 stores. It has words since ROS 2 Iron, and before the numbers of `rmw`.
pub(super) fn read(text: &str) -> Vec<Offer> {
    let mut problems = Vec::new();
    let mapping = format!("offers:\n{text}");
    let Ok(root) = node::read(&mapping, "offered_qos_profiles", &mut problems) else {
        return Vec::new();
    };
    let offer = |entry: &node::Node| {
        let value = |key: &str| entry.get(key).and_then(|node| node.scalar()).unwrap_or_default();
        let word = |key: &str, words: [&str; 3]| {
            let found = value(key);
            let number = found.parse().ok().and_then(|at: usize| words.get(at).copied());
            number.unwrap_or(found).to_owned()
        };
        Offer {
            reliability: word("reliability", ["system_default", "reliable", "best_effort"]),
            durability: word("durability", ["system_default", "transient_local", "volatile"]),
            depth: value("depth").parse().unwrap_or(0),
        }
    };
    let mut offers: Vec<Offer> = Vec::new();
    for entry in root.get("offers").and_then(|list| list.items()).unwrap_or_default() {
        let offer = offer(entry);
        if !offers.contains(&offer) {
            offers.push(offer);
        }
    }
    offers
}

#[cfg(test)]
mod tests;
