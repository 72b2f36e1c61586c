//! Contents of the files of a checkpoint of LeRobot.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::statistics::Statistics;

/// File that says how the policy was made.
const CONFIG: &str = "config.json";
/// File of the processor, by which a policy of LeRobot 0.4 changes observations before it takes them.
const PROCESSOR: &str = "policy_preprocessor.json";
/// The policies whose own keys are known.
const KNOWN: [&str; 4] = ["act", "diffusion", "smolvla", "pi0"];
/// The key of a size to which SmolVLA, and pi0 of LeRobot before 0.4, resize images themselves: width, height.
const PADS_TO: &str = "resize_imgs_with_padding";
/// The keys of a size to which other policies resize images themselves: height, width.
const RESIZES_TO: [&str; 2] = ["image_resolution", "resize_shape"];
/// An input that a policy makes itself.
const EMPTY: &str = "observation.images.empty_camera_";

/// A checkpoint that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not what LeRobot writes.
    #[error("{path}: expected {expected}, found {found}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
}

/// An input of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name among the observations, before the processor gives it another one.
    pub key: String,
    /// `VISUAL`, `STATE` or `ENV`.
    pub kind: String,
    /// Its shape: for an image channels, height, width.
    pub shape: Vec<usize>,
    /// How the policy normalises it: `IDENTITY`, `MEAN_STD`, `MIN_MAX` and others; `None` if no file says it.
    pub normalisation: Option<String>,
    /// Its name in the statistics.
    name: String,
}

/// Contents of the files of a checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The type of the policy.
    pub policy: String,
    /// Inputs of the policy.
    pub inputs: Vec<Input>,
    /// Numbers of an action; `None` if it has none.
    pub action: Option<usize>,
    /// The steps of an observation that the policy takes at once.
    pub observation_steps: Option<usize>,
    /// The key and the size \[px\] to which the policy resizes images itself: height, width.
    pub resizes_to: Option<(&'static str, [usize; 2])>,
    /// The size of the part of an image that the policy cuts out \[px\]: height, width.
    pub crops_to: Option<[usize; 2]>,
    /// The numbers of the normalisation.
    pub statistics: Statistics,
    /// True if there is a file of the processor.
    pub has_processor: bool,
}

impl Checkpoint {
    /// Reads the files of a folder: that of `config.json`, or one that has it in `pretrained_model`.
    ///
    /// # Errors
    /// [`CheckpointError`]: there is no such file, or LeRobot did not write it.
    pub fn read(folder: &Path) -> Result<Self, CheckpointError> {
        let below = folder.join("pretrained_model");
        let folder = if below.join(CONFIG).exists() { &below } else { folder };
        let path = folder.join(CONFIG);
        let config = json(&path)?.ok_or_else(|| CheckpointError::Wrong {
            path: folder.to_owned(),
            expected: "a checkpoint of LeRobot, a folder with config.json or pretrained_model/config.json",
            found: if folder.is_dir() { "none" } else { "no such folder" }.to_owned(),
        })?;
        let processor = json(&folder.join(PROCESSOR))?;
        let wrong = |expected, found: &Value| {
            let path = path.clone();
            let found = found.to_string();
            CheckpointError::Wrong { path, expected, found }
        };
        let policy = config["type"].as_str().ok_or_else(|| wrong("a type", &config["type"]))?;
        let features = config["input_features"].as_object();
        let features =
            features.ok_or_else(|| wrong("input_features", &config["input_features"]))?;
        let steps = processor.as_ref().and_then(|of| of["steps"].as_array());
        let step = |name: &str| {
            let named = |step: &&Value| step["registry_name"] == name;
            steps.and_then(|steps| steps.iter().find(named))
        };
        let normalizer = step("normalizer_processor");
        let modes =
            normalizer.map_or(&config["normalization_mapping"], |of| &of["config"]["norm_map"]);
        let renames = step("rename_observations_processor").map(|of| &of["config"]["rename_map"]);
        let mut inputs = Vec::new();
        for (name, feature) in features.iter().filter(|(name, _)| !name.starts_with(EMPTY)) {
            let kind = feature["type"].as_str().unwrap_or_default();
            let shape = sizes(&feature["shape"]).ok_or_else(|| wrong("a shape", feature))?;
            inputs.push(Input {
                key: before(renames, name),
                kind: kind.to_owned(),
                shape,
                normalisation: modes[kind].as_str().map(str::to_owned),
                name: name.clone(),
            });
        }
        let state = normalizer.and_then(|of| of["state_file"].as_str());
        let size = |key: &str| sizes(&config[key]).and_then(|of| <[usize; 2]>::try_from(of).ok());
        Ok(Checkpoint {
            policy: policy.to_owned(),
            inputs,
            action: sizes(&config["output_features"]["action"]["shape"])
                .and_then(|shape| shape.first().copied()),
            observation_steps: config["n_obs_steps"].as_u64().map(|steps| steps as usize),
            resizes_to: match size(PADS_TO) {
                Some([width, height]) => Some((PADS_TO, [height, width])),
                None => RESIZES_TO.into_iter().find_map(|key| Some((key, size(key)?))),
            },
            crops_to: size("crop_shape"),
            statistics: match state {
                // A checkpoint of someone else must not name a file elsewhere.
                Some(file)
                    if Path::new(file).components().ne([Component::Normal(file.as_ref())]) =>
                {
                    let path = folder.join(PROCESSOR);
                    let expected = "a file of this folder";
                    return Err(CheckpointError::Wrong { path, expected, found: file.to_owned() });
                }
                Some(file) => Statistics::read(&folder.join(file))?,
                None => Statistics::default(),
            },
            has_processor: processor.is_some(),
        })
    }

    /// True if the keys of this type of policy are known.
    pub fn is_known(&self) -> bool {
        KNOWN.contains(&self.policy.as_str())
    }

    /// The numbers by which an input is normalised: the value is `(x - mean) / std`, with one of each per channel.
    /// `None` if it is not normalised, or the files do not say by which numbers.
    pub fn scale_of(&self, input: &Input) -> Option<Vec<[f64; 2]>> {
        let of = |name: &str| self.statistics.get(&format!("{}.{name}", input.name));
        let between = |low: &str, high: &str| {
            let ends = of(low)?.iter().zip(of(high)?);
            Some(ends.map(|(low, high)| [(low + high) / 2.0, (high - low) / 2.0]).collect())
        };
        match input.normalisation.as_deref()? {
            "MEAN_STD" => {
                let pairs = of("mean")?.iter().zip(of("std")?);
                Some(pairs.map(|(mean, std)| [*mean, *std]).collect())
            }
            "MIN_MAX" => between("min", "max"),
            "QUANTILES" => between("q01", "q99"),
            "QUANTILE10" => between("q10", "q90"),
            _ => None,
        }
    }
}

impl Input {
    /// True if the input is an image.
    pub fn is_image(&self) -> bool {
        self.kind == "VISUAL"
    }

    /// True if the policy changes the input's numbers, as far as is known.
    pub fn is_normalised(&self) -> bool {
        self.normalisation.as_deref().is_some_and(|mode| mode != "IDENTITY")
    }
}

/// The name that an observation has before it is renamed.
fn before(renames: Option<&Value>, name: &str) -> String {
    let map = renames.and_then(Value::as_object);
    let old = map.and_then(|map| map.iter().find(|(_, new)| *new == name));
    old.map_or(name, |(old, _)| old).to_owned()
}

/// A list of sizes.
fn sizes(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|size| size.as_u64().map(|size| size as usize)).collect()
}

/// A file of JSON; `None` if it does not exist.
fn json(path: &Path) -> Result<Option<Value>, CheckpointError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CheckpointError::Read { path: path.into(), source }),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| CheckpointError::Wrong {
        path: path.into(),
        expected: "JSON",
        found: error.to_string(),
    })
}
