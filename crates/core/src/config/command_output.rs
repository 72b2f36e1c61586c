//! The key `output` of a group of commands: where they go.

use super::check::{Check, Range};
use super::defaults::long_name;
use super::mapping::mapping;
use super::words::{near_type, one_of};
use crate::command::output::{CommandType, TYPES};
use crate::spec::{CommandForm, CommandOutputSpec, Interface};
use robocache_ops::time::{NANOS_PER_MS, TickGrid};

/// Longest time between two points \[ms\]: a message looks no further ahead.
const MAX_POINTS_MS: f64 = 60_000.0;

mapping! { RawCommandOutput {
    topic: String,
    ros_type ("type"): String,
    points_ms: f64,
    one_point: bool,
} }

/// Validates the output at `key` of a group with this interface, on this grid. They may be unknown, which has been
/// reported.
pub(super) fn output(
    check: &mut Check<'_>,
    key: &str,
    raw: RawCommandOutput,
    interface: Option<Interface>,
    grid: Option<TickGrid>,
) -> Option<CommandOutputSpec> {
    let at = |name: &str| format!("{key}.{name}");
    let topic = check
        .required(&at("topic"), raw.topic.clone(), "the topic of the commands")
        .and_then(|topic| check.topic(&at("topic"), topic));
    let message = message_type(check, &at("type"), raw.ros_type.as_deref())?;
    if interface.is_some_and(|interface| !message.interfaces.contains(&interface)) {
        let takes: Vec<_> = message.interfaces.iter().map(|known| known.name()).collect();
        let found = format!("{}, which takes {}", message.name, takes.join(" and "));
        check.fail_found(&at("type"), "a type that takes the interface of the group", found);
        return None;
    }
    let form = form(check, key, &raw, message, grid)?;
    Some(CommandOutputSpec { topic: topic?, ros_type: message.name, form })
}

fn message_type(
    check: &mut Check<'_>,
    key: &str,
    name: Option<&str>,
) -> Option<&'static CommandType> {
    let known = name.and_then(|name| CommandType::find(&long_name(name)));
    if known.is_none() {
        let names: Vec<_> = TYPES.iter().map(|known| known.name).collect();
        check.fail(key, one_of(&names));
        if let Some(near) = name.and_then(|name| near_type(name, &names)) {
            check.hint(format!("did you mean `{near}`?"));
        }
    }
    known
}

/// When commands become messages of a type.
fn form(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawCommandOutput,
    message: &CommandType,
    grid: Option<TickGrid>,
) -> Option<CommandForm> {
    let [points, one] = ["points_ms", "one_point"].map(|name| format!("{key}.{name}"));
    if check.is_unread(&points) || check.is_unread(&one) {
        return None;
    }
    if !message.has_points {
        let with = TYPES.iter().filter(|known| known.has_points).map(|known| known.name);
        let expected = format!("no such key: it is for {}", with.collect::<Vec<_>>().join(", "));
        let given = [(&points, raw.points_ms.is_some()), (&one, raw.one_point.is_some())];
        let mut wrong = given.into_iter().filter(|(_, given)| *given).peekable();
        let right = wrong.peek().is_none();
        wrong.for_each(|(key, _)| check.fail(key, expected.clone()));
        return right.then_some(CommandForm::EachTick);
    }
    match (raw.points_ms, raw.one_point) {
        (Some(_), Some(true)) => {
            check.fail(&one, "no such key beside `points_ms`");
            None
        }
        (None, Some(true)) => Some(CommandForm::EachTick),
        (None, _) => {
            check.fail(&points, "the time from point to point, or `one_point: true`");
            None
        }
        (Some(ms), _) => {
            let step_ns = check.nanos(&points, ms, Range::above(0.0, MAX_POINTS_MS))?;
            let period_ns = grid?.period_ns();
            // The period is rounded to a nanosecond, and so is the time between points.
            let periods = (step_ns + period_ns / 2) / period_ns;
            if periods == 0 || (step_ns - periods * period_ns).abs() > periods {
                let period_ms = period_ns as f64 / NANOS_PER_MS as f64;
                let expected =
                    format!("a whole number of periods of the commands ({period_ms} ms)");
                check.fail(&points, expected);
                return None;
            }
            Some(CommandForm::Points { step_ns: periods * period_ns })
        }
    }
}
