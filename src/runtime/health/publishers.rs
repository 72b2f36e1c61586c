//! Explains from a topic's publishers why nothing, or too little, comes from it.

use super::assess::Trouble;
use crate::spec::InputSpec;

/// A publisher of an input's topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherSeen {
    /// The node's full name.
    pub node: String,
    /// The type it publishes.
    pub ros_type: String,
    /// Whether it offers reliable delivery.
    pub reliable: bool,
}

impl PublisherSeen {
    /// Whether its messages reach this input: type and quality of service match.
    pub fn fits(&self, spec: &InputSpec) -> bool {
        self.ros_type == spec.ros_type && (self.reliable || !spec.qos.reliable)
    }
}

/// Says which publishers are refused although others fit: they offer best effort, and the stream
/// asks for reliable delivery. `None` if there are none. If no publisher fits, the input is silent,
/// and [`explain`] says why.
pub fn refused(spec: &InputSpec, publishers: &[PublisherSeen]) -> Option<String> {
    let of_type = publishers.iter().filter(|p| p.ros_type == spec.ros_type);
    let (fit, refused): (Vec<_>, Vec<_>) = of_type.partition(|p| p.reliable || !spec.qos.reliable);
    if fit.is_empty() || refused.is_empty() {
        return None;
    }
    let mut names: Vec<_> = refused.iter().map(|p| p.node.as_str()).collect();
    names.sort_unstable();
    Some(format!(
        "nothing comes from {}: this stream asks for reliable delivery and the publisher offers \
         best_effort; give the stream `qos: {{reliability: best_effort}}`",
        names.join(", ")
    ))
}

/// Says which nodes publish `/clock`, if there are several; `None` for one or none.
pub fn several(clock_publishers: &[String]) -> Option<String> {
    let mut names: Vec<_> = clock_publishers.iter().map(String::as_str).collect();
    names.sort_unstable();
    let (last, others) = names.split_last()?;
    (!others.is_empty()).then(|| {
        format!(
            "{} publishers on /clock: {} and {last}: their readings alternate, and every step back \
             begins an epoch; stop all but one",
            names.len(),
            others.join(", "),
        )
    })
}

/// Explains why nothing, or too little, may come from a topic. `remedy` says what to do if the
/// middleware loses large messages.
pub fn explain(
    trouble: Trouble,
    spec: &InputSpec,
    (topic, remedy): (&str, &str),
    seen: Option<&[PublisherSeen]>,
) -> String {
    let Some(publishers) = seen else { return "publishers not yet known".to_owned() };
    if publishers.is_empty() {
        return format!("no publisher on {topic}: is the name right, and its node running?");
    }
    let wanted = spec.ros_type.as_str();
    let describe = |p: &PublisherSeen| {
        let reliability = if p.reliable { "reliable" } else { "best_effort" };
        format!("{} ({}, {reliability})", p.node, p.ros_type)
    };
    let list = publishers.iter().map(describe).collect::<Vec<_>>().join(", ");
    let mut of_type = publishers.iter().filter(|p| p.ros_type == wanted).peekable();
    let advice = if of_type.peek().is_none() {
        format!("the types differ: this stream expects {wanted}")
    } else if spec.qos.reliable && of_type.all(|p| !p.reliable) {
        "the quality of service does not match: this stream asks for reliable delivery and the \
         publisher offers best_effort; give the stream `qos: {reliability: best_effort}`"
            .to_owned()
    } else if spec.is_large() {
        match trouble {
            Trouble::Silent => format!(
                "types and quality of service match: it publishes nothing, or its messages are too \
                 large for its shared memory. {remedy}"
            ),
            Trouble::Lossy => remedy.to_owned(),
        }
    } else if trouble == Trouble::Silent {
        "types and quality of service match: it publishes nothing".to_owned()
    } else {
        "messages are lost on the way, or the publisher is slower than expected".to_owned()
    };
    format!("publishers seen: {list}; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of a wrench and of a camera.
    fn inputs() -> Vec<InputSpec> {
        let config = "
rate_hz: 100
streams:
  wrench:
    type: geometry_msgs/WrenchStamped
    topic: /wrench
    max_age_ms: 50
    qos: {reliability: reliable}
  camera:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 50
    image: {width: 8, height: 8}
";
        crate::config::parse(config, "test.yaml").unwrap().inputs
    }

    fn publisher(ros_type: &str, reliable: bool) -> PublisherSeen {
        PublisherSeen { node: "/driver".into(), ros_type: ros_type.into(), reliable }
    }

    #[test]
    fn the_reason_for_silence_is_found_among_the_publishers() {
        let specs = inputs();
        let remedy = "Enlarge its shared memory";
        let explain = |seen: Option<&[PublisherSeen]>| {
            explain(Trouble::Silent, &specs[0], ("/wrench", remedy), seen)
        };
        assert!(explain(Some(&[])).starts_with("no publisher on /wrench"));
        let other = explain(Some(&[publisher("geometry_msgs/msg/Wrench", true)]));
        assert!(other.contains("expects geometry_msgs/msg/WrenchStamped"), "{other}");
        let offered = publisher("geometry_msgs/msg/WrenchStamped", false);
        let offered = explain(Some(std::slice::from_ref(&offered)));
        assert!(offered.contains("/driver (geometry_msgs/msg/WrenchStamped, best_effort)"));
        assert!(offered.contains("`qos: {reliability: best_effort}`"), "{offered}");
        // A publisher of another type does not change that.
        let seen = [("geometry_msgs/msg/WrenchStamped", false), ("geometry_msgs/msg/Wrench", true)];
        let seen = seen.map(|(ros_type, reliable)| publisher(ros_type, reliable));
        let mixed = explain(Some(&seen));
        assert!(mixed.contains("`qos: {reliability: best_effort}`"), "{mixed}");
        let fine = explain(Some(&[publisher("geometry_msgs/msg/WrenchStamped", true)]));
        assert!(fine.ends_with("it publishes nothing"), "{fine}");
        let seen = [publisher("sensor_msgs/msg/Image", true)];
        let words = super::explain(Trouble::Silent, &specs[1], ("/camera", remedy), Some(&seen));
        let nothing = words.find("it publishes nothing, or").unwrap();
        assert!(nothing < words.find(remedy).unwrap(), "{words}");
    }

    #[test]
    fn several_publishers_of_the_clock_are_listed() {
        let several = |names: &[&str]| {
            several(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!((several(&[]), several(&["/a"])), (None, None));
        let words = several(&["/sim", "/bag", "/sim"]).unwrap();
        assert!(words.starts_with("3 publishers on /clock: /bag, /sim and /sim: "), "{words}");
    }

    #[test]
    fn a_publisher_that_is_refused_beside_another_is_named() {
        let specs = inputs();
        let [fits, refused] =
            [true, false].map(|r| publisher("geometry_msgs/msg/WrenchStamped", r));
        let refused = PublisherSeen { node: "/other".into(), ..refused };
        let both = [fits.clone(), refused.clone()];
        let words = super::refused(&specs[0], &both).unwrap();
        assert!(words.starts_with("nothing comes from /other: this stream asks for"), "{words}");
        assert_eq!(super::refused(&specs[0], &[fits]), None);
        assert_eq!(super::refused(&specs[0], &[refused]), None, "`explain` tells it");
        let best_effort = InputSpec {
            qos: crate::spec::Qos { reliable: false, ..specs[0].qos },
            ..specs[0].clone()
        };
        assert_eq!(super::refused(&best_effort, &both), None);
    }
}
