//! The deployment settings: ROS parameters, read and checked once, before anything else exists.

use std::path::PathBuf;
use std::time::Duration;

use r2r::ParameterValue;

use super::error::NodeError;
use crate::time::TickGrid;

/// Where tensors are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// The fastest that this build and this machine have.
    Auto,
    /// The processor.
    Cpu,
    /// The GPU.
    Cuda,
}

impl BackendChoice {
    fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(BackendChoice::Auto),
            "cpu" => Some(BackendChoice::Cpu),
            "cuda" => Some(BackendChoice::Cuda),
            _ => None,
        }
    }
}

/// The parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The configuration file.
    pub config_file: PathBuf,
    /// Where tensors are computed.
    pub backend: BackendChoice,
    /// Number of the GPU.
    pub device: u32,
    /// Whether `/clock` is the node's clock.
    pub use_sim_time: bool,
    /// Real-time priority of the tick thread, 0 for none.
    pub realtime_priority: u8,
    /// Rate of the ticks \[Hz\], where it is not the configuration's.
    pub rate_hz: Option<f64>,
    /// Time between two messages on `/diagnostics`.
    pub diagnostics_period: Duration,
}

/// A parameter as the parameter services show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The name.
    pub name: &'static str,
    /// What it means, with its unit.
    pub description: &'static str,
    /// Its value.
    pub value: ParameterValue,
}

/// The parameters with their defaults. The type of the default is the type of the parameter.
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
            ParameterValue::Integer(50),
            "Real-time priority (SCHED_FIFO, 1 to 99) of the tick thread; 0: ordinary priority.",
        ),
        parameter(
            "diagnostics_period_s",
            ParameterValue::Double(1.0),
            "Time between two messages on /diagnostics [s].",
        ),
    ]
}

/// Puts the given values (from the command line and parameter files) in the place of the defaults.
/// Unknown names and other types are errors; an integer serves where a double is expected.
pub fn override_declared<'a>(
    declared: &mut [Declared],
    given: impl IntoIterator<Item = (&'a String, &'a ParameterValue)>,
) -> Result<(), NodeError> {
    for (name, value) in given {
        let known = declared.iter().map(|d| d.name).collect::<Vec<_>>().join(", ");
        let Some(parameter) = declared.iter_mut().find(|d| d.name == name) else {
            return Err(NodeError::UnknownParameter { name: name.clone(), known });
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
    Ok(())
}

fn with_article(type_name: &str) -> String {
    match type_name {
        "not set" => "no value".to_owned(),
        "integer" | "integer array" => format!("an {type_name}"),
        _ => format!("a {type_name}"),
    }
}

/// Reads the settings off the declared parameters.
pub fn settings(declared: &[Declared]) -> Result<Settings, NodeError> {
    let mut settings = Settings {
        config_file: PathBuf::new(),
        backend: BackendChoice::Auto,
        device: 0,
        use_sim_time: false,
        realtime_priority: 0,
        rate_hz: None,
        diagnostics_period: Duration::from_secs(1),
    };
    for Declared { name, value, .. } in declared {
        let wrong = |expected: &str, found: String| NodeError::Parameter {
            name,
            expected: expected.to_owned(),
            found,
        };
        match (*name, value) {
            ("config_file", ParameterValue::String(path)) if path.is_empty() => {
                let hint = "the path of a configuration (--ros-args -p config_file:=PATH)";
                return Err(wrong(hint, "nothing".to_owned()));
            }
            ("config_file", ParameterValue::String(path)) => settings.config_file = path.into(),
            ("backend", ParameterValue::String(backend)) => {
                settings.backend = BackendChoice::named(backend)
                    .ok_or_else(|| wrong("auto, cpu or cuda", format!("'{backend}'")))?;
            }
            ("device", ParameterValue::Integer(device)) => {
                settings.device = u32::try_from(*device)
                    .map_err(|_| wrong("the number of a GPU, 0 or more", device.to_string()))?;
            }
            ("use_sim_time", ParameterValue::Bool(yes)) => settings.use_sim_time = *yes,
            ("realtime_priority", ParameterValue::Integer(priority)) => {
                settings.realtime_priority = u8::try_from(*priority)
                    .ok()
                    .filter(|priority| *priority <= 99)
                    .ok_or_else(|| wrong("a priority from 0 to 99", priority.to_string()))?;
            }
            ("rate_hz", ParameterValue::Double(rate)) => {
                if *rate != 0.0 && !is_rate(*rate) {
                    return Err(wrong("a rate in Hz from 0.1 to 2000, or 0", rate.to_string()));
                }
                settings.rate_hz = (*rate != 0.0).then_some(*rate);
            }
            ("diagnostics_period_s", ParameterValue::Double(period)) => {
                let expected = "a time in seconds from 0.1 to 3600";
                if !(0.1..=3600.0).contains(period) {
                    return Err(wrong(expected, period.to_string()));
                }
                settings.diagnostics_period = Duration::from_secs_f64(*period);
            }
            (_, value) => return Err(wrong("its declared type", with_article(value.type_name()))),
        }
    }
    Ok(settings)
}

/// The range that the configuration's own `rate_hz` has.
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
    fn defaults_hold_and_given_values_replace_them() {
        let config = ("config_file", text("robot.yaml"));
        let defaults = from(std::slice::from_ref(&config)).unwrap();
        assert_eq!(defaults.backend, BackendChoice::Auto);
        assert_eq!((defaults.rate_hz, defaults.use_sim_time), (None, false));
        let given = from(&[
            config,
            ("rate_hz", ParameterValue::Integer(50)),
            ("use_sim_time", ParameterValue::Bool(true)),
            ("device", ParameterValue::Integer(1)),
        ]);
        let given = given.unwrap();
        assert_eq!((given.rate_hz, given.use_sim_time, given.device), (Some(50.0), true, 1));
    }

    #[test]
    fn every_wrong_parameter_is_named_with_what_was_expected_and_found() {
        let file = ("config_file", text("robot.yaml"));
        let missing = error(&[]);
        assert!(missing.starts_with("parameter config_file: expected the path"), "{missing}");
        let unknown = error(&[file.clone(), ("rate", ParameterValue::Integer(5))]);
        assert!(unknown.starts_with("parameter rate: expected one of config_file,"), "{unknown}");
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
