//! The deployment settings: ROS parameters, read and checked once at the start.

use std::path::PathBuf;
use std::time::Duration;

use r2r::ParameterValue;

use super::error::NodeError;
use crate::backend::Choice;
use crate::config::nearest;
use crate::time::TickGrid;

/// The parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The configuration file.
    pub config_file: PathBuf,
    /// Where tensors are computed.
    pub backend: Choice,
    /// Number of the GPU.
    pub device: u32,
    /// Whether `/clock` is the node's clock.
    pub use_sim_time: bool,
    /// Real-time priority of the tick thread, 0 for none.
    pub realtime_priority: u8,
    /// Rate of the ticks \[Hz\]; `None`: the rate of the configuration.
    pub rate_hz: Option<f64>,
    /// Time between two messages on `/diagnostics`.
    pub diagnostics_period: Duration,
    /// Whether each tensor has a digest.
    pub digest: bool,
}

/// A parameter, as the parameter services show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The name.
    pub name: &'static str,
    /// What it means, with its unit.
    pub description: &'static str,
    /// Its value.
    pub value: ParameterValue,
}

/// Returns the parameters with their defaults. A parameter has the type of its default.
pub fn declared() -> Vec<Declared> {
    let text = |value: &str| ParameterValue::String(value.to_owned());
    let parameter = |name, value, description| Declared { name, description, value };
    vec![
        parameter("config_file", text(""), "Path of the configuration (YAML). Required."),
        parameter("backend", text("auto"), "Where tensors are computed: auto, cpu or cuda."),
        parameter("device", ParameterValue::Integer(0), "Number of the GPU for the cuda backend."),
        parameter(
            "use_sim_time",
            ParameterValue::Bool(false),
            "Tick by /clock instead of the system's clock.",
        ),
        parameter(
            "rate_hz",
            ParameterValue::Double(0.0),
            "Rate of the ticks [Hz]; 0 takes the configuration's.",
        ),
        parameter(
            "realtime_priority",
            ParameterValue::Integer(20),
            "Real-time priority (SCHED_FIFO, 1 to 99) of the tick thread; 0: ordinary priority.",
        ),
        parameter(
            "diagnostics_period_s",
            ParameterValue::Double(1.0),
            "Time between two messages on /diagnostics [s].",
        ),
        parameter(
            "digest",
            ParameterValue::Bool(true),
            "Whether each tensor has a digest (XXH3) of all of it.",
        ),
    ]
}

/// Replaces the defaults by the given values, from the command line and parameter files. Returns
/// the names that this node does not have: as in every ROS node these are no error, because one
/// file may serve many nodes.
///
/// # Errors
/// An unknown name that is almost a known one, or a value of another type. An integer is accepted
/// for a double.
pub fn override_declared<'a>(
    declared: &mut [Declared],
    given: impl IntoIterator<Item = (&'a String, &'a ParameterValue)>,
) -> Result<Vec<String>, NodeError> {
    let mut unknown = Vec::new();
    for (name, value) in given {
        let Some(parameter) = declared.iter_mut().find(|d| d.name == name) else {
            let names: Vec<_> = declared.iter().map(|d| d.name).collect();
            match meant(name, &names) {
                Some(near) => {
                    return Err(NodeError::UnknownParameter { name: name.clone(), near });
                }
                None => unknown.push(name.clone()),
            }
            continue;
        };
        parameter.value = match (&parameter.value, value) {
            (ParameterValue::Double(_), ParameterValue::Integer(i)) => {
                ParameterValue::Double(*i as f64)
            }
            (wanted, found) if wanted.type_name() != found.type_name() => {
                return Err(NodeError::Parameter {
                    name: parameter.name,
                    expected: with_article(wanted.type_name()),
                    found: with_article(found.type_name()),
                });
            }
            (_, found) => found.clone(),
        };
    }
    unknown.sort();
    Ok(unknown)
}

/// Returns the parameter that the user probably meant by `name`: one that differs by a few letters,
/// or only by its unit.
fn meant(name: &str, names: &[&'static str]) -> Option<&'static str> {
    let unit = |known: &str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    names.iter().copied().find(|known| unit(known)).or_else(|| nearest(name, names))
}

fn with_article(type_name: &str) -> String {
    match type_name {
        "not set" => "no value".to_owned(),
        "integer" | "integer array" => format!("an {type_name}"),
        _ => format!("a {type_name}"),
    }
}

/// Reads the settings from the declared parameters.
pub fn settings(declared: &[Declared]) -> Result<Settings, NodeError> {
    let mut settings = Settings {
        config_file: PathBuf::new(),
        backend: Choice::Auto,
        device: 0,
        use_sim_time: false,
        realtime_priority: 0,
        rate_hz: None,
        diagnostics_period: Duration::from_secs(1),
        digest: true,
    };
    for Declared { name, value, .. } in declared {
        settings.read(name, value).map_err(|(expected, found)| NodeError::Parameter {
            name,
            expected: expected.to_owned(),
            found,
        })?;
    }
    Ok(settings)
}

impl Settings {
    /// Reads one parameter; an error says what was expected and what was found.
    fn read(&mut self, name: &str, value: &ParameterValue) -> Result<(), (&'static str, String)> {
        match (name, value) {
            ("config_file", ParameterValue::String(path)) if path.is_empty() => {
                let expected = "the path of a configuration (--ros-args -p config_file:=PATH)";
                return Err((expected, "nothing".to_owned()));
            }
            ("config_file", ParameterValue::String(path)) => self.config_file = path.into(),
            ("backend", ParameterValue::String(backend)) => {
                let named = backend.parse();
                self.backend = named.map_err(|_| (Choice::NAMES, format!("'{backend}'")))?;
            }
            ("device", ParameterValue::Integer(device)) => {
                let number = u32::try_from(*device).ok();
                let expected = "the number of a GPU, 0 or more";
                self.device = number.ok_or((expected, device.to_string()))?;
            }
            ("use_sim_time", ParameterValue::Bool(yes)) => self.use_sim_time = *yes,
            ("digest", ParameterValue::Bool(yes)) => self.digest = *yes,
            ("realtime_priority", ParameterValue::Integer(priority)) => {
                let in_range = u8::try_from(*priority).ok().filter(|priority| *priority <= 99);
                let expected = "a priority from 0 to 99";
                self.realtime_priority = in_range.ok_or((expected, priority.to_string()))?;
            }
            ("rate_hz", ParameterValue::Double(rate)) => {
                self.rate_hz = (*rate != 0.0).then_some(*rate);
                if self.rate_hz.is_some_and(|rate| !is_rate(rate)) {
                    return Err(("a rate in Hz from 0.1 to 2000, or 0", rate.to_string()));
                }
            }
            ("diagnostics_period_s", ParameterValue::Double(period)) => {
                if !(0.1..=3600.0).contains(period) {
                    return Err(("a time in seconds from 0.1 to 3600", period.to_string()));
                }
                self.diagnostics_period = Duration::from_secs_f64(*period);
            }
            (_, value) => return Err(("its declared type", with_article(value.type_name()))),
        }
        Ok(())
    }
}

/// Whether the rate is in the range that `rate_hz` of the configuration has.
fn is_rate(rate_hz: f64) -> bool {
    (0.1..=2000.0).contains(&rate_hz) && TickGrid::from_rate_hz(rate_hz).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(given: &[(&str, ParameterValue)]) -> Result<Settings, NodeError> {
        let mut declared = declared();
        let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        override_declared(&mut declared, given.iter().map(|(n, v)| (n, v)))?;
        settings(&declared)
    }

    fn error(given: &[(&str, ParameterValue)]) -> String {
        from(given).unwrap_err().to_string()
    }

    fn text(value: &str) -> ParameterValue {
        ParameterValue::String(value.to_owned())
    }

    #[test]
    fn given_values_replace_defaults() {
        let config = ("config_file", text("robot.yaml"));
        let defaults = from(std::slice::from_ref(&config)).unwrap();
        assert_eq!(defaults.backend, Choice::Auto);
        assert_eq!((defaults.rate_hz, defaults.use_sim_time), (None, false));
        assert!(defaults.digest);
        let given = from(&[
            config,
            ("rate_hz", ParameterValue::Integer(50)),
            ("use_sim_time", ParameterValue::Bool(true)),
            ("device", ParameterValue::Integer(1)),
            ("digest", ParameterValue::Bool(false)),
        ]);
        let given = given.unwrap();
        assert_eq!((given.rate_hz, given.use_sim_time, given.device), (Some(50.0), true, 1));
        assert!(!given.digest);
    }

    #[test]
    fn parameters_of_other_nodes_are_ignored() {
        let mut declared = declared();
        let names = ["robot_description", "joints", "qos_overrides./clock.subscription.depth"];
        let given = names.map(|name| (name.to_owned(), text("")));
        let given = given.iter().map(|(name, value)| (name, value));
        let unknown = override_declared(&mut declared, given).unwrap();
        assert_eq!(unknown, ["joints", "qos_overrides./clock.subscription.depth", names[0]]);
        assert_eq!(declared, super::declared());
    }

    #[test]
    fn an_error_names_the_parameter_and_what_was_expected_and_found() {
        let file = ("config_file", text("robot.yaml"));
        let missing = error(&[]);
        assert!(missing.starts_with("parameter config_file: expected the path"), "{missing}");
        for (name, near) in
            [("rate", "rate_hz"), ("rate_hx", "rate_hz"), ("use_sim_tme", "use_sim_time")]
        {
            let message = error(&[file.clone(), (name, ParameterValue::Integer(5))]);
            let expected = format!("parameter {name}: no such name, did you mean {near}?");
            assert_eq!(message, expected);
        }
        let cases = [
            (("rate_hz", text("fast")), "expected a double, found a string"),
            (("rate_hz", ParameterValue::Double(-1.0)), "from 0.1 to 2000, or 0, found -1"),
            (("rate_hz", ParameterValue::Double(f64::NAN)), "found NaN"),
            (("device", ParameterValue::Double(1.0)), "expected an integer, found a double"),
            (("device", ParameterValue::Integer(-1)), "0 or more, found -1"),
            (("use_sim_time", ParameterValue::Integer(1)), "expected a boolean, found an integer"),
            (("realtime_priority", ParameterValue::Integer(100)), "from 0 to 99, found 100"),
            (("backend", text("gpu")), "expected auto, cpu or cuda, found 'gpu'"),
            (("diagnostics_period_s", ParameterValue::Integer(0)), "0.1 to 3600, found 0"),
        ];
        for (parameter, expected) in cases {
            let name = parameter.0;
            let message = error(&[file.clone(), parameter]);
            assert!(message.starts_with(&format!("parameter {name}: ")), "{message}");
            assert!(message.ends_with(expected), "{message}");
        }
    }
}
