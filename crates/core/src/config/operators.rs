//! The key `operators`: what is made of the channels of a vector.

use super::check::{Check, Range};
use super::raw::{NormalizeMode, RawNormalize, RawOperator, Rotation6d};
use super::words::{nearest, one_of};
use crate::spec::Selection;
use robocache_ops::align::Strategy;
use robocache_ops::operators::VectorSpec;
use robocache_ops::operators::{Operator, OutputChannel, Source};
use robocache_ops::resample::Lane;

/// Largest number in size that an operator takes.
const MOST: f64 = 1e30;
/// Names of channels that an error lists at most.
const NAMES_LISTED: usize = 32;

/// Validates the operators at `key` and adds what they make of the channels to `spec`.
/// `strategy` is that of the stream, if it names one.
pub(super) fn operators(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<Vec<RawOperator>>,
    strategy: Option<Strategy>,
    names: Names<'_>,
    spec: &mut VectorSpec,
) -> Option<()> {
    if check.is_unread(key) {
        return None;
    }
    let Some(raw) = raw.filter(|raw| !raw.is_empty()) else { return Some(()) };
    let as_it_is = |(at, channel): (usize, &robocache_ops::operators::Channel)| OutputChannel {
        name: channel.name.clone(),
        unit: if channel.lane == Lane::Angular { "rad" } else { "" },
        source: Source::Channel(at),
        operators: Vec::new(),
    };
    let outputs = spec.channels.iter().enumerate().map(as_it_is).collect();
    let interpolates = strategy.is_none_or(Strategy::interpolates);
    let mut outputs = Outputs { spec, names, interpolates, outputs };
    // All are checked, so that all problems are reported together.
    let mut right = true;
    for (i, raw) in raw.into_iter().enumerate() {
        right &= outputs.add(check, &format!("{key}[{i}]"), raw).is_some();
    }
    let outputs = outputs.outputs;
    spec.outputs = outputs;
    right.then_some(())
}

/// How the names of a stream's channels are made.
#[derive(Clone, Copy)]
pub(super) enum Names<'a> {
    /// Of a joint, a dot, and a quantity without a dot. These labels are in front of those of inputs with joints of
    /// their own.
    Joints(&'a [String]),
    /// Of members of a message, one in the other. These labels are in front of those of inputs that select.
    Members(&'a [String]),
}

/// The elements of a step so far.
struct Outputs<'a> {
    spec: &'a VectorSpec,
    names: Names<'a>,
    interpolates: bool,
    outputs: Vec<OutputChannel>,
}

impl Outputs<'_> {
    fn add(&mut self, check: &mut Check<'_>, key: &str, raw: RawOperator) -> Option<()> {
        let at = |name: &str| format!("{key}.{name}");
        let given = [
            ("scale", raw.scale.is_some()),
            ("offset", raw.offset.is_some()),
            ("clamp", raw.clamp.is_some()),
            ("rad2deg", raw.rad2deg.is_some()),
            ("unwrap", raw.unwrap.is_some()),
            ("rotation_6d", raw.rotation_6d.is_some()),
            ("normalize", raw.normalize.is_some()),
        ];
        if given.iter().any(|(name, _)| check.is_unread(&at(name))) || check.is_unread(&at("of")) {
            return None;
        }
        if given.iter().filter(|(_, given)| *given).count() != 1 {
            let expected = "one of scale, offset, clamp, rad2deg, unwrap, rotation_6d and normalize \
                            in each entry";
            check.fail(key, expected);
            return None;
        }
        let chosen = match &raw.of {
            Some(names) => Some(self.chosen(check, &at("of"), names)?),
            None => None,
        };
        let number = Range::from(-MOST, MOST);
        let all = || (0..self.outputs.len()).collect::<Vec<_>>();
        if let Some(scale) = raw.scale {
            let scale = check.number(&at("scale"), scale, number)?;
            if scale == 0.0 {
                check.fail(&at("scale"), "a number other than 0");
                return None;
            }
            let operator = Operator::Affine { shift: 0.0, scale, offset: 0.0 };
            self.put(&chosen.unwrap_or_else(all), |_| operator, Some(""));
        } else if let Some(offset) = raw.offset {
            let offset = check.number(&at("offset"), offset, number)?;
            let operator = Operator::Affine { shift: 0.0, scale: 1.0, offset };
            self.put(&chosen.unwrap_or_else(all), |_| operator, None);
        } else if let Some(limits) = raw.clamp {
            let [low, high] = check.numbers::<2>(&at("clamp"), &limits, number)?;
            if low >= high {
                check.fail(&at("clamp"), "[low, high] with low less than high");
                return None;
            }
            self.put(&chosen.unwrap_or_else(all), |_| Operator::Clamp { low, high }, None);
        } else if let Some(on) = raw.rad2deg {
            let chosen = chosen.unwrap_or_else(all);
            self.rad2deg(check, &at("rad2deg"), on, &chosen)?;
        } else if let Some(on) = raw.unwrap {
            self.unwrap(check, &at("unwrap"), on, chosen)?;
        } else if let Some(order) = raw.rotation_6d {
            self.rotation_6d(check, &at("rotation_6d"), order, chosen)?;
        } else if let Some(normalize) = raw.normalize {
            let chosen = chosen.unwrap_or_else(all);
            let operators = normalisation(check, &at("normalize"), normalize, chosen.len())?;
            self.put(&chosen, |i| operators[i], Some(""));
        }
        Some(())
    }

    /// Appends an operator to elements. Afterwards their unit is `unit`, if there is one.
    fn put(
        &mut self,
        chosen: &[usize],
        mut of: impl FnMut(usize) -> Operator,
        unit: Option<&'static str>,
    ) {
        for (i, at) in chosen.iter().enumerate() {
            let output = &mut self.outputs[*at];
            output.operators.push(of(i));
            output.unit = unit.unwrap_or(output.unit);
        }
    }

    /// The elements that names are for: a channel, or all channels of a field, a joint or a member.
    fn chosen(&self, check: &mut Check<'_>, key: &str, names: &[String]) -> Option<Vec<usize>> {
        check.names(key, names, "channel or field")?;
        let mut chosen = Vec::new();
        let mut right = true;
        for (i, name) in names.iter().enumerate() {
            let is_part = |output: &OutputChannel| self.names.is_part(name, &output.name);
            let found = self.outputs.iter().enumerate().filter(|(_, output)| is_part(output));
            let before = chosen.len();
            chosen.extend(found.map(|(at, _)| at));
            if chosen.len() == before {
                let known: Vec<_> =
                    self.outputs.iter().map(|output| output.name.as_str()).collect();
                let listed = one_of(&known[..known.len().min(NAMES_LISTED)]);
                check.fail(
                    &format!("{key}[{i}]"),
                    format!("a channel, or a part of its name: {listed}"),
                );
                if let Some(near) = nearest(name, &known) {
                    check.hint(format!("did you mean `{near}`?"));
                }
                right = false;
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        right.then_some(chosen)
    }

    fn lane(&self, at: usize) -> Option<Lane> {
        match self.outputs[at].source {
            Source::Channel(channel) => Some(self.spec.channels[channel].lane),
            Source::Rotation { .. } => None,
        }
    }

    fn rad2deg(
        &mut self,
        check: &mut Check<'_>,
        key: &str,
        on: bool,
        chosen: &[usize],
    ) -> Option<()> {
        let is_on = switched_on(check, key, on);
        let wrong = chosen.iter().find(|at| {
            self.outputs[**at].unit == "deg"
                || !matches!(self.lane(**at), Some(Lane::Linear | Lane::Angular | Lane::Held))
        });
        if let Some(at) = wrong {
            let expected = "channels in radians; `of` names them";
            check.fail_found(key, expected, format!("`{}`", self.outputs[*at].name));
            return None;
        }
        is_on?;
        let scale = 180.0 / std::f64::consts::PI;
        let operator = Operator::Affine { shift: 0.0, scale, offset: 0.0 };
        self.put(chosen, |_| operator, Some("deg"));
        Some(())
    }

    fn unwrap(
        &mut self,
        check: &mut Check<'_>,
        key: &str,
        on: bool,
        chosen: Option<Vec<usize>>,
    ) -> Option<()> {
        let is_on = switched_on(check, key, on);
        let angles = || {
            let angular = |at: &usize| self.lane(*at) == Some(Lane::Angular);
            (0..self.outputs.len()).filter(angular).collect::<Vec<_>>()
        };
        let chosen = chosen.unwrap_or_else(angles);
        let lane = if self.interpolates { Lane::Angular } else { Lane::Linear };
        let fits =
            |at: &usize| self.lane(*at) == Some(lane) && self.outputs[*at].operators.is_empty();
        if chosen.is_empty() || !chosen.iter().all(fits) {
            let expected = match self.interpolates {
                true => "channels that `angular` lists, as the first of their operators",
                false => "channels that are angles [rad], by `of`, as the first of their operators",
            };
            let wrong = chosen.iter().find(|at| !fits(at));
            let found =
                wrong.map_or("none".to_owned(), |at| format!("`{}`", self.outputs[*at].name));
            check.fail_found(key, expected, found);
            return None;
        }
        is_on?;
        self.put(&chosen, |_| Operator::Unwrap, Some("rad"));
        Some(())
    }

    fn rotation_6d(
        &mut self,
        check: &mut Check<'_>,
        key: &str,
        order: Rotation6d,
        chosen: Option<Vec<usize>>,
    ) -> Option<()> {
        let turns = |at: &usize| self.lane(*at) == Some(Lane::Quaternion);
        let chosen = chosen.unwrap_or_else(|| (0..self.outputs.len()).filter(turns).collect());
        let untouched = |at: &usize| turns(at) && self.outputs[*at].operators.is_empty();
        let (quaternions, rest) = chosen.as_chunks::<4>();
        // Quaternions follow each other without a gap, so the first of each four is an x.
        let first = |channel: usize| {
            let before = &self.spec.channels[..channel];
            before.iter().rev().take_while(|c| c.lane == Lane::Quaternion).count() % 4 == 0
        };
        let whole = quaternions.iter().all(|four| {
            let starts = matches!(self.outputs[four[0]].source, Source::Channel(at) if first(at));
            starts && four[3] == four[0] + 3
        });
        if chosen.is_empty() || !rest.is_empty() || !whole || !chosen.iter().all(untouched) {
            let expected =
                "whole quaternions, such as orientation, as the first of their operators";
            check.fail(key, expected);
            return None;
        }
        let entries = order.entries();
        let mut outputs = Vec::with_capacity(self.outputs.len() + chosen.len() / 2);
        for (at, output) in self.outputs.drain(..).enumerate() {
            match chosen.binary_search(&at) {
                Err(_) => outputs.push(output),
                Ok(place) if place % 4 == 0 => {
                    let quaternion = output.source.channel();
                    let name = output.name.rsplit_once('.').map_or(&*output.name, |(name, _)| name);
                    outputs.extend(entries.map(|[row, column]| OutputChannel {
                        name: format!("{name}.r{row}{column}"),
                        unit: "",
                        source: Source::Rotation { quaternion, row, column },
                        operators: Vec::new(),
                    }));
                }
                Ok(_) => {}
            }
        }
        self.outputs = outputs;
        Some(())
    }
}

impl<'a> Names<'a> {
    /// Naming of the channels of a stream with these selections. `labels`: see [`Names`].
    pub(super) fn of(selections: &[Selection], labels: &'a [String]) -> Self {
        match selections.first() {
            Some(Selection::Joints { .. } | Selection::Trajectory { .. }) => Names::Joints(labels),
            _ => Names::Members(labels),
        }
    }

    /// True if `name` is that of a channel, or a part of it: its field, its joint, a member that it is in, or
    /// the topic of its input. Of several inputs, a name without a topic is for all. The name of a joint may
    /// hold anything, so it counts only as a whole.
    fn is_part(self, name: &str, channel: &str) -> bool {
        let labels = match self {
            Names::Joints(labels) => {
                let whole = |channel: &str| {
                    let parts = channel.rsplit_once('.');
                    channel == name
                        || parts.is_some_and(|(joint, field)| [joint, field].contains(&name))
                };
                let label = labels.iter().find(|label| channel.starts_with(label.as_str()));
                let Some(label) = label.filter(|label| !label.is_empty()) else {
                    return whole(channel);
                };
                return label.strip_suffix(':') == Some(name)
                    || whole(channel)
                    || whole(&channel[label.len()..]);
            }
            Names::Members(labels) => labels,
        };
        let label = labels.iter().find(|label| channel.starts_with(label.as_str()));
        let label = label.map_or("", String::as_str);
        if label.strip_suffix(':') == Some(name) {
            return true;
        }
        let path = &channel[label.len()..];
        let name = name.strip_prefix(label).unwrap_or(name);
        match [path.strip_prefix(name), path.strip_suffix(name)] {
            [Some(rest), _] if rest.is_empty() || rest.starts_with(['.', '[']) => true,
            [_, Some(rest)] => rest.ends_with('.'),
            _ => false,
        }
    }
}

impl Rotation6d {
    /// Row and column of each of the six numbers.
    fn entries(self) -> [[usize; 2]; 6] {
        match self {
            Rotation6d::Rows => [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]],
            Rotation6d::Columns => [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]],
            Rotation6d::ColumnsByRow => [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]],
        }
    }
}

fn switched_on(check: &mut Check<'_>, key: &str, on: bool) -> Option<()> {
    if !on {
        check.fail(key, "true; leave the entry out otherwise");
    }
    on.then_some(())
}

/// The operators that normalise `count` channels.
fn normalisation(
    check: &mut Check<'_>,
    key: &str,
    mut raw: RawNormalize,
    count: usize,
) -> Option<Vec<Operator>> {
    let at = |name: &str| format!("{key}.{name}");
    let mode = check.required(&at("mode"), raw.mode, "mean_std, min_max or quantile")?;
    let eps = check.number(&at("eps"), raw.eps.unwrap_or(0.0), Range::from(0.0, 1.0))?;
    let own = mode.lists();
    let mut lists = [
        ("mean", raw.mean.take()),
        ("std", raw.std.take()),
        ("min", raw.min.take()),
        ("max", raw.max.take()),
        ("q01", raw.q01.take()),
        ("q99", raw.q99.take()),
    ];
    let from_file = raw.stats.is_some() || raw.key.is_some();
    let mut right = true;
    for (name, list) in &lists {
        if list.is_some() && (from_file || !own.contains(name)) {
            let expected = match from_file {
                true => "no such key beside `stats`".to_owned(),
                false => {
                    format!("no such key for {}: it has {} and {}", mode.name(), own[0], own[1])
                }
            };
            check.fail(&at(name), expected);
            right = false;
        }
    }
    if raw.first.is_some() && !from_file {
        check.fail(&at("first"), "no such key without `stats`");
        right = false;
    }
    if !right {
        return None;
    }
    let [low, high] = if from_file {
        from_stats(check, key, &raw, own, count)?
    } else {
        let mut take = |name: &str| {
            let list = lists.iter_mut().find(|(known, _)| *known == name)?.1.take();
            let expected = format!("{count} numbers, one per channel, or `stats` and `key`");
            let list = check.required(&at(name), list, &expected)?;
            if list.len() != count {
                check.fail_found(&at(name), expected, format!("{} numbers", list.len()));
                return None;
            }
            Some(list)
        };
        let low = take(own[0]);
        let high = take(own[1]);
        [low?, high?]
    };
    let mut operators = Vec::with_capacity(count);
    for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
        let (divisor, factor, offset) = match mode {
            NormalizeMode::MeanStd => (high + eps, 1.0, 0.0),
            NormalizeMode::MinMax | NormalizeMode::Quantile => (high - low + eps, 2.0, -1.0),
        };
        let scale = factor / divisor;
        if !(divisor > 0.0 && low.abs() <= MOST && high.abs() <= MOST && scale <= MOST) {
            let expected = match mode {
                NormalizeMode::MeanStd => "a finite mean and a std greater than 0, or an `eps`",
                _ => "finite numbers, the second of each pair greater, or an `eps`",
            };
            check.fail_found(key, expected, format!("{low} and {high} for channel {i}"));
            return None;
        }
        operators.push(Operator::Affine { shift: low, scale, offset });
    }
    Some(operators)
}

impl NormalizeMode {
    fn name(self) -> &'static str {
        match self {
            NormalizeMode::MeanStd => "mean_std",
            NormalizeMode::MinMax => "min_max",
            NormalizeMode::Quantile => "quantile",
        }
    }

    /// The lists of numbers that it takes, in the configuration and in a file.
    fn lists(self) -> [&'static str; 2] {
        match self {
            NormalizeMode::MeanStd => ["mean", "std"],
            NormalizeMode::MinMax => ["min", "max"],
            NormalizeMode::Quantile => ["q01", "q99"],
        }
    }
}

/// Reads two lists of `count` numbers from a file of statistics: LeRobot's `meta/stats.json`, or
/// openpi's `norm_stats.json`.
fn from_stats(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawNormalize,
    names: [&str; 2],
    count: usize,
) -> Option<[Vec<f64>; 2]> {
    let at = |name: &str| format!("{key}.{name}");
    let file = check.required(&at("stats"), raw.stats.as_deref(), "the file that has `key`")?;
    let feature = check.required(
        &at("key"),
        raw.key.as_deref(),
        "a key of the file such as observation.state",
    )?;
    let document = match check.read_file(file).and_then(read_json) {
        Ok(document) => document,
        Err(error) => {
            check.fail(&at("stats"), format!("a JSON file that can be read ({error})"));
            return None;
        }
    };
    let known = document.get("norm_stats").unwrap_or(&document);
    let Some(statistics) = known.get(feature) else {
        let keys: Vec<&str> =
            known.as_object().into_iter().flatten().map(|(key, _)| &**key).collect();
        check.fail(&at("key"), one_of(&keys[..keys.len().min(NAMES_LISTED)]));
        return None;
    };
    let first = match raw.first {
        Some(first) => Some(check.integer(&at("first"), first, 0, 1 << 20)?),
        None => None,
    };
    let mut list = |name: &str| {
        let numbers = statistics.get(name).and_then(serde_json::Value::as_array);
        let numbers: Option<Vec<f64>> =
            numbers.and_then(|list| list.iter().map(serde_json::Value::as_f64).collect());
        let numbers = check.required(
            &at("key"),
            numbers,
            &format!("a key with the list of numbers `{name}`"),
        )?;
        let from = first.unwrap_or(0);
        let fits = match first {
            Some(first) => first + count <= numbers.len(),
            None => count == numbers.len(),
        };
        if !fits {
            let expected = format!(
                "{count} numbers in `{name}`, one per channel; `first` is the place of the first, if \
                 the file has more"
            );
            check.fail_found(&at("key"), expected, numbers.len().to_string());
            return None;
        }
        Some(numbers[from..from + count].to_vec())
    };
    let [low, high] = names.map(&mut list);
    Some([low?, high?])
}

fn read_json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
