//! Messages of any type: which of their numbers become a vector.

use std::sync::Arc;

use super::check::Check;
use super::raw::RawStream;
use super::words::{nearest, one_of};
use crate::ops::resample::Lane;
use crate::schema::{self, Path, Plan};
use crate::spec::{Channel, VectorSpec};

/// Validates the keys `select`, `stamp` and `angular` of the stream at `key`, whose messages are of
/// the type `name`.
pub(super) fn select(
    check: &mut Check<'_>,
    key: &str,
    name: &str,
    raw: &mut RawStream,
) -> Option<(VectorSpec, Arc<Plan>)> {
    let at = |rest: &str| format!("{key}.{rest}");
    let selected = raw.select.take();
    if check.is_unread(&at("select")) {
        return None;
    }
    let texts = selected.unwrap_or_default();
    check.names(&at("select"), &texts, "path")?;
    let mut paths = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        paths.push(path(check, &format!("{}[{i}]", at("select")), text));
    }
    let stamp = raw.stamp.take();
    let stamp = stamp.map(|text| path(check, &at("stamp"), &text));
    let paths: Vec<Path> = paths.into_iter().collect::<Option<_>>()?;
    let stamp = match stamp {
        Some(stamp) => Some(stamp?),
        None => None,
    };
    let root = schema::resolve(name, check.definitions());
    let root = root.map_err(|error| {
        check.fail(&at("type"), format!("a type whose definition can be read ({error})"));
    });
    let plan = Plan::new(&root.ok()?, &paths, stamp.as_ref()).map_err(|error| {
        let key = match error.path {
            Some(path) => format!("{}[{path}]", at("select")),
            None => at("stamp"),
        };
        check.fail(&key, error.expected);
        if let Some((wrong, known)) = error.unknown {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            if let Some(near) = nearest(&wrong, &known) {
                check.hint(format!("did you mean `{near}`?"));
            }
        }
    });
    let plan = plan.ok()?;
    let channel = |(name, lane): &(String, Lane)| Channel { name: name.clone(), lane: *lane };
    let mut channels: Vec<Channel> = plan.channels().iter().map(channel).collect();
    distinct(check, &at("select"), &channels)?;
    if let Some(names) = raw.angular.take() {
        angular(check, &at("angular"), &names, &mut channels)?;
    }
    Some((VectorSpec::whole(channels), Arc::new(plan)))
}

fn path(check: &mut Check<'_>, key: &str, text: &str) -> Option<Path> {
    match Path::parse(text) {
        Ok(path) => Some(path),
        Err(error) => {
            check.fail(key, format!("a path such as pose.position.x or values[3] ({error})"));
            None
        }
    }
}

/// Checks that no number is selected twice, by two paths.
fn distinct(check: &mut Check<'_>, key: &str, channels: &[Channel]) -> Option<()> {
    let mut names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Some(()),
        Some(twice) => {
            check.fail_found(key, "each number once", format!("`{}` repeatedly", twice[0]));
            None
        }
    }
}

/// Marks the channels that are angles.
fn angular(
    check: &mut Check<'_>,
    key: &str,
    names: &[String],
    channels: &mut [Channel],
) -> Option<()> {
    check.names(key, names, "channel")?;
    let mut all = true;
    for (i, name) in names.iter().enumerate() {
        // The user may have written other quotes than a channel's name has.
        let name = Path::parse(name).map_or_else(|_| name.clone(), |path| path.to_string());
        match channels.iter_mut().find(|channel| channel.name == name) {
            Some(channel) if channel.lane == Lane::Linear => channel.lane = Lane::Angular,
            Some(_) => {
                check.fail(&format!("{key}[{i}]"), "a number that is no part of a quaternion");
                all = false;
            }
            None => {
                let known: Vec<_> = channels.iter().map(|channel| channel.name.as_str()).collect();
                check.fail(&format!("{key}[{i}]"), one_of(&known[..known.len().min(32)]));
                all = false;
            }
        }
    }
    all.then_some(())
}
