//! Which quality of service an input asks for, as its publishers offer it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::spec::{Durability, InputSpec, Qos, Reliability};

/// A publisher of an input's topic, as the graph shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherSeen {
    /// The node's full name; `None` while the graph does not know it. A publisher is discovered a
    /// moment before its node, and one that is not of ROS has no node.
    pub node: Option<String>,
    /// The type it publishes.
    pub ros_type: String,
    /// What it offers.
    pub offers: Request,
}

impl PublisherSeen {
    /// Its node's name, in words if it is not known.
    pub fn name(&self) -> &str {
        self.node.as_deref().unwrap_or("a publisher without a node")
    }
}

/// What a subscription asks for, or a publisher offers. The other policies of ROS always match,
/// because a subscription of this node asks for nothing there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `reliable` rather than `best_effort`.
    pub reliable: bool,
    /// `transient_local` rather than `volatile`.
    pub transient_local: bool,
}

impl Request {
    /// Returns what an input asks for if these are the publishers of its topic. Publishers of
    /// another type do not count.
    ///
    /// What the configuration says is obeyed. `auto` asks for what all publishers offer. If one
    /// offers less, or there is none, `auto` asks for the least, which fits every publisher: so no
    /// publisher that comes is refused.
    pub fn of(spec: &InputSpec, publishers: &[PublisherSeen]) -> Request {
        let mut fitting = publishers.iter().filter(|p| p.ros_type == spec.ros_type).peekable();
        let some = fitting.peek().is_some();
        let all =
            fitting.fold(Request { reliable: some, transient_local: some }, |all, p| Request {
                reliable: all.reliable && p.offers.reliable,
                transient_local: all.transient_local && p.offers.transient_local,
            });
        Request {
            reliable: match spec.qos.reliability {
                Reliability::Auto => all.reliable,
                Reliability::BestEffort => false,
                Reliability::Reliable => true,
            },
            transient_local: match spec.qos.durability {
                Durability::Auto => all.transient_local,
                Durability::Volatile => false,
                Durability::TransientLocal => true,
            },
        }
    }

    /// What an input asks for before a publisher is known.
    pub fn at_first(spec: &InputSpec) -> Request {
        Request::of(spec, &[])
    }

    /// Whether a publisher with this offer is connected to a subscription that asks for `self`.
    pub fn fits(self, offered: Request) -> bool {
        (offered.reliable || !self.reliable) && (offered.transient_local || !self.transient_local)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reliability = if self.reliable { "reliable" } else { "best_effort" };
        let durability = if self.transient_local { "transient_local" } else { "volatile" };
        write!(f, "{reliability}, {durability}")
    }
}

/// A [`Request`] that several threads read and write.
#[derive(Debug)]
pub struct SharedRequest(AtomicU8);

impl SharedRequest {
    /// Begins with this request.
    pub fn new(request: Request) -> Self {
        SharedRequest(AtomicU8::new(Self::bits(request)))
    }

    /// The newest request.
    pub fn get(&self) -> Request {
        let bits = self.0.load(Ordering::Relaxed);
        Request { reliable: bits & 1 > 0, transient_local: bits & 2 > 0 }
    }

    /// Replaces the request.
    pub fn set(&self, request: Request) {
        self.0.store(Self::bits(request), Ordering::Relaxed);
    }

    fn bits(request: Request) -> u8 {
        u8::from(request.reliable) | u8::from(request.transient_local) << 1
    }
}

/// Whether the configuration leaves a policy to the publishers.
pub fn is_adapted(qos: Qos) -> bool {
    qos.reliability == Reliability::Auto || qos.durability == Durability::Auto
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(qos: &str) -> InputSpec {
        let config = format!(
            "rate_hz: 100
streams: {{w: {{type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, qos: {qos}}}}}
"
        );
        crate::config::parse(&config, "test.yaml").unwrap().inputs.remove(0)
    }

    const fn offer(reliable: bool, transient_local: bool) -> Request {
        Request { reliable, transient_local }
    }

    fn publisher(offers: Request) -> PublisherSeen {
        let ros_type = "geometry_msgs/msg/WrenchStamped".into();
        PublisherSeen { node: Some("/driver".into()), ros_type, offers }
    }

    #[test]
    fn auto_asks_for_what_all_publishers_offer() {
        let spec = input("{}");
        let of = |offers: &[Request]| {
            Request::of(&spec, &offers.iter().copied().map(publisher).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), offer(false, false), "fits every publisher");
        for (reliable, local) in [(false, false), (false, true), (true, false), (true, true)] {
            assert_eq!(of(&[offer(reliable, local)]), offer(reliable, local));
            let mixed = of(&[offer(reliable, local), offer(!reliable, !local)]);
            assert_eq!(mixed, offer(false, false));
        }
        assert_eq!(of(&[offer(true, true), offer(true, false)]), offer(true, false));
        assert_eq!(of(&[offer(true, true), offer(false, true)]), offer(false, true));
        // One of another type changes nothing.
        let other = PublisherSeen { ros_type: "a/msg/B".into(), ..publisher(offer(false, false)) };
        let both = [other.clone(), publisher(offer(true, true))];
        assert_eq!(Request::of(&spec, &both), offer(true, true));
        assert_eq!(Request::of(&spec, &[other]), Request::at_first(&spec));
    }

    #[test]
    fn what_the_configuration_says_is_obeyed() {
        let least = [publisher(offer(false, false))];
        let most = [publisher(offer(true, true))];
        let of = |qos: &str| [&least, &most].map(|p| Request::of(&input(qos), p));
        let both = |request| [request; 2];
        assert_eq!(of("{reliability: reliable, durability: volatile}"), both(offer(true, false)));
        let asked = of("{reliability: best_effort, durability: transient_local}");
        assert_eq!(asked, both(offer(false, true)));
        assert_eq!(of("{reliability: reliable}"), [offer(true, false), offer(true, true)]);
        let fixed = input("{reliability: reliable, durability: volatile}");
        assert!(!is_adapted(fixed.qos) && is_adapted(input("{reliability: reliable}").qos));
    }

    #[test]
    fn an_offer_fits_if_it_is_not_less() {
        let all = [(false, false), (false, true), (true, false), (true, true)];
        for (asked, offered) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let expected = (asked.0 <= offered.0) && (asked.1 <= offered.1);
            assert_eq!(offer(asked.0, asked.1).fits(offer(offered.0, offered.1)), expected);
        }
        for (reliable, local) in all {
            let shared = SharedRequest::new(offer(!reliable, !local));
            shared.set(offer(reliable, local));
            assert_eq!(shared.get(), offer(reliable, local));
        }
        assert_eq!(offer(true, false).to_string(), "reliable, volatile");
        assert_eq!(offer(false, true).to_string(), "best_effort, transient_local");
    }
}
