//! Explains from a topic's publishers why nothing, or too little, comes from it.

use super::assess::Trouble;
use crate::runtime::{PublisherSeen, Request};
use crate::spec::InputSpec;

/// Says which publishers are refused, with what they offer and what the stream asks for; `None` if
/// all of its type fit.
pub fn refused(spec: &InputSpec, publishers: &[PublisherSeen]) -> Option<String> {
    let asked = Request::of(spec, publishers);
    let of_type = publishers.iter().filter(|p| p.ros_type == spec.ros_type);
    let mut refused: Vec<_> = of_type.filter(|p| !asked.fits(p.offers)).collect();
    refused.sort_unstable_by_key(|p| p.name());
    if refused.is_empty() {
        return None;
    }
    let by =
        |differs: fn(Request) -> bool| differs(asked) && refused.iter().any(|p| !differs(p.offers));
    let policies = [
        ("reliability: auto", by(|request| request.reliable)),
        ("durability: auto", by(|request| request.transient_local)),
    ];
    let remedy: Vec<_> = policies.iter().filter(|(_, by)| *by).map(|(words, _)| *words).collect();
    let names: Vec<_> = refused.iter().map(|p| format!("{} ({})", p.name(), p.offers)).collect();
    Some(format!(
        "the quality of service does not match: nothing comes from {}, because this stream asks for \
         {asked}; give the stream `qos: {{{}}}`",
        names.join(", "),
        remedy.join(", "),
    ))
}

/// Whether no publisher of the stream's type fits.
pub fn all_refused(spec: &InputSpec, publishers: &[PublisherSeen]) -> bool {
    let asked = Request::of(spec, publishers);
    let mut of_type = publishers.iter().filter(|p| p.ros_type == spec.ros_type).peekable();
    of_type.peek().is_some() && of_type.all(|p| !asked.fits(p.offers))
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
    let describe = |p: &PublisherSeen| format!("{} ({}, {})", p.name(), p.ros_type, p.offers);
    let list = publishers.iter().map(describe).collect::<Vec<_>>().join(", ");
    let advice = if publishers.iter().all(|p| p.ros_type != wanted) {
        format!("the types differ: this stream expects {wanted}")
    } else if let Some(refused) =
        refused(spec, publishers).filter(|_| all_refused(spec, publishers))
    {
        refused
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
    use crate::spec::{Durability, Qos, Reliability};

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
    image: {resize: {width: 8, height: 8}}
";
        crate::config::parse(config, "test.yaml").unwrap().inputs
    }

    fn publisher(ros_type: &str, reliable: bool) -> PublisherSeen {
        let offers = Request { reliable, transient_local: false };
        PublisherSeen { node: Some("/driver".into()), ros_type: ros_type.into(), offers }
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
        assert!(
            offered.contains("/driver (geometry_msgs/msg/WrenchStamped, best_effort, volatile)")
        );
        assert!(offered.contains("`qos: {reliability: auto}`"), "{offered}");
        // A publisher of another type does not change that.
        let seen = [("geometry_msgs/msg/WrenchStamped", false), ("geometry_msgs/msg/Wrench", true)];
        let seen = seen.map(|(ros_type, reliable)| publisher(ros_type, reliable));
        let mixed = explain(Some(&seen));
        assert!(mixed.contains("`qos: {reliability: auto}`"), "{mixed}");
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
        let refused = PublisherSeen { node: Some("/other".into()), ..refused };
        let both = [fits.clone(), refused.clone()];
        let words = super::refused(&specs[0], &both).unwrap();
        let expected = "the quality of service does not match: nothing comes from /other \
                        (best_effort, volatile), because this stream asks for reliable, volatile; \
                        give the stream `qos: {reliability: auto}`";
        assert_eq!(words, expected);
        assert!(!all_refused(&specs[0], &both));
        assert_eq!(super::refused(&specs[0], &[fits]), None);
        assert!(super::refused(&specs[0], std::slice::from_ref(&refused)).is_some());
        assert!(all_refused(&specs[0], &[refused]));
        let asks = |reliability, durability| InputSpec {
            qos: Qos { reliability, durability, ..specs[0].qos },
            ..specs[0].clone()
        };
        let auto = asks(Reliability::Auto, Durability::Auto);
        assert_eq!(super::refused(&auto, &both), None);
        let local = asks(Reliability::Reliable, Durability::TransientLocal);
        let words = super::refused(&local, &both).unwrap();
        assert!(words.contains("/driver (reliable, volatile), /other (best_effort, volatile)"));
        assert!(words.ends_with("`qos: {reliability: auto, durability: auto}`"), "{words}");
    }
}
