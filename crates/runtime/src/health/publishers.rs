//! Explains from a topic's publishers why nothing, or too little, comes from it.

use super::assess::Trouble;
use crate::{OfferedQos, PublisherSeen};
use robocache_core::input::laser_scan;
use robocache_core::spec::InputSpec;

/// Says which publishers are refused, with what they offer and what the stream asks for; `None` if
/// all of its type fit.
pub(super) fn refused(spec: &InputSpec, publishers: &[PublisherSeen]) -> Option<String> {
    let asked = OfferedQos::of(spec, publishers);
    let of_type = publishers.iter().filter(|p| p.ros_type == spec.ros_type);
    let mut refused: Vec<_> = of_type.filter(|p| !asked.fits(p.offers)).collect();
    refused.sort_unstable_by_key(|p| p.name());
    if refused.is_empty() {
        return None;
    }
    let by = |differs: fn(OfferedQos) -> bool| {
        differs(asked) && refused.iter().any(|p| !differs(p.offers))
    };
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

/// True if publishers of the stream's type exist, and none of them fits.
pub(super) fn all_refused(spec: &InputSpec, publishers: &[PublisherSeen]) -> bool {
    let asked = OfferedQos::of(spec, publishers);
    let mut of_type = publishers.iter().filter(|p| p.ros_type == spec.ros_type).peekable();
    of_type.peek().is_some() && of_type.all(|p| !asked.fits(p.offers))
}

/// Says which nodes publish `/clock`, if there are several; `None` for one or none.
pub(super) fn several(clock_publishers: &[String]) -> Option<String> {
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

/// Explains why nothing, or too little, may come from a topic. `heard` says whether a message ever came,
/// and `remedy` what to do if the middleware loses large messages.
pub(super) fn explain(
    trouble: Trouble,
    heard: bool,
    spec: &InputSpec,
    topic: &str,
    remedy: &str,
    seen: Option<&[PublisherSeen]>,
) -> String {
    let Some(publishers) = seen else { return "publishers not yet known".to_owned() };
    if publishers.is_empty() {
        return match heard {
            true => format!("no publisher on {topic} any more: has its node ended?"),
            false => format!("no publisher on {topic}: is the name right, and its node running?"),
        };
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
    } else {
        // A scan is encoded as a cloud is, but its messages are small.
        let large = spec.is_large() && spec.ros_type != laser_scan::NAME;
        let fit = "types and quality of service match: it publishes nothing";
        match (trouble, heard) {
            (Trouble::Silent | Trouble::Stopped, true) => format!("{fit} any more"),
            (Trouble::Silent | Trouble::Stopped, false) if large => {
                format!("{fit}, or the middleware loses its large messages. {remedy}")
            }
            (Trouble::Silent | Trouble::Stopped, false) => fit.to_owned(),
            (Trouble::Lossy, _) if large => remedy.to_owned(),
            (Trouble::Lossy, _) => {
                "messages are lost on the way, or the publisher is slower than expected".to_owned()
            }
        }
    };
    format!("publishers seen: {list}; {advice}")
}

#[cfg(test)]
mod tests;
