//! Comparison of a checkpoint's inputs with the tensors of a configuration.

use robocache_core::encoder::EncoderSpec;
use robocache_core::encoder::kind;
use robocache_core::spec::{Config, StreamSpec};
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, ImageLayout, ImageSpec};
use robocache_ops::operators::{Operator, OutputChannel};
use serde::Serialize;

use super::checkpoint::{Checkpoint, Input};

/// Numbers of a normalisation that differ by less are the same: files have them as floats of 32 bits.
const TOLERANCE: f64 = 1e-5;
const IMAGES: &str = "observation.images.";
const STATE: &str = "observation.state";

/// Findings of the comparison, a sentence each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The type of the policy.
    pub policy: String,
    /// Differences: what the policy takes and the configuration does not make.
    pub differences: Vec<String>,
    /// Facts that the files of the checkpoint do not tell.
    pub unknown: Vec<String>,
}

/// Compares a checkpoint with a configuration. Streams have the names that `robocache to-lerobot` gives their columns:
/// `observation.images.STREAM`, and the vectors in `observation.state`.
pub fn compare(checkpoint: &Checkpoint, config: &Config) -> Findings {
    let mut found = Findings { policy: checkpoint.policy.clone(), ..Findings::default() };
    if !checkpoint.is_known() {
        found.unknown(format!(
            "type: no test knows a policy of type {}; keys of its own are not compared",
            checkpoint.policy
        ));
    }
    let comparison = Comparison { checkpoint, config };
    for input in &checkpoint.inputs {
        match (input.is_image(), input.key.as_str()) {
            (true, _) => comparison.image(input, &mut found),
            (false, STATE) => comparison.state(input, &mut found),
            (false, _) => comparison.other(input, &mut found),
        }
    }
    comparison.action(&mut found);
    comparison.silent(&mut found);
    found
}

impl Findings {
    fn differs(&mut self, sentence: String) {
        self.differences.push(sentence);
    }

    fn unknown(&mut self, sentence: String) {
        self.unknown.push(sentence);
    }
}

struct Comparison<'a> {
    checkpoint: &'a Checkpoint,
    config: &'a Config,
}

impl<'a> Comparison<'a> {
    fn stream(&self, name: &str) -> Option<&'a StreamSpec> {
        self.config.streams.iter().find(|stream| stream.name == name)
    }

    /// The vectors of a column, as `to-lerobot` finds them: the action, and the state.
    fn vectors(&self) -> [Vec<&'a StreamSpec>; 2] {
        let all = || self.config.streams.iter().filter(|of| of.encoder.as_vector().is_some());
        let named = |names: &[&str]| all().filter(|of| names.contains(&of.name.as_str())).collect();
        let mut action: Vec<_> = named(&["action", "actions"]);
        if action.is_empty() {
            action = all().filter(|of| of.plans).collect();
        }
        let mut state: Vec<_> = named(&["state"]);
        if state.is_empty() {
            let is_action = |of: &&StreamSpec| action.iter().any(|other| other.name == of.name);
            state = all().filter(|of| !is_action(of)).collect();
        }
        [action, state]
    }

    fn image(&self, input: &Input, found: &mut Findings) {
        let key = &input.key;
        let Some(name) = key.strip_prefix(IMAGES) else {
            let sentence = "the policy takes this image, and no stream has a column of this name; \
                            rename it with a rename_map of the processor";
            return found.differs(format!("{key}: {sentence}"));
        };
        let images = self.config.streams.iter().filter(|of| of.encoder.kind() == kind::IMAGE);
        let Some(stream) = self.stream(name) else {
            let images: Vec<_> = images.map(|of| of.name.as_str()).collect();
            return found.differs(format!(
                "{key}: the policy takes this image, and no stream is called {name}; the images are {}",
                listed(&images)
            ));
        };
        let EncoderSpec::Image(spec) = &stream.encoder else {
            let kind = stream.encoder.kind();
            return found.differs(format!(
                "{key}: the policy takes an image, and the stream {name} makes rows of kind {kind}"
            ));
        };
        self.size(input, spec, found);
        self.values(input, stream, spec, found);
        self.steps(key, stream, found);
    }

    /// The size of an image: that of the data set, or the one that the policy would resize it to.
    fn size(&self, input: &Input, spec: &ImageSpec, found: &mut Findings) {
        let key = &input.key;
        let last = spec.last();
        let made = [last.height, last.width];
        let [channels, height, width] = input.shape[..] else {
            return found.unknown(format!(
                "{key}: the shape {:?} of the checkpoint is not channels, height, width",
                input.shape
            ));
        };
        let own = self.checkpoint.resizes_to.map(|(_, size)| size);
        if made != [height, width] && own != Some(made) {
            let or = self.checkpoint.resizes_to.map_or(String::new(), |(name, [height, width])| {
                format!(" (or {width} x {height}, its {name})")
            });
            found.differs(format!(
                "{key}: the policy was trained with images of {width} x {height} px{or}, and the \
                 configuration makes {} x {} px",
                last.width, last.height
            ));
        }
        if spec.color.channels() != channels {
            found.differs(format!(
                "{key}: the policy takes {channels} channels, and the configuration makes {}",
                spec.color.channels()
            ));
        } else if spec.color == Color::Bgr {
            found.differs(format!(
                "{key}: LeRobot's images are RGB, and the configuration makes BGR"
            ));
        }
    }

    /// The values of an image. LeRobot's processor takes bytes, or values from 0 to 1; what follows it takes
    /// normalised ones.
    fn values(&self, input: &Input, stream: &StreamSpec, spec: &ImageSpec, found: &mut Findings) {
        let key = &input.key;
        if stream.dtype == DType::U8 {
            let layout = spec.layout.name();
            return found.unknown(format!(
                "{key}: the layout of the bytes that the program of the policy takes; the configuration has {layout}"
            ));
        }
        if spec.layout == ImageLayout::Hwc {
            found.differs(format!(
                "{key}: the policy takes floats as channels, height, width, and the configuration has layout hwc"
            ));
        }
        let channels = spec.color.channels();
        let made = |at: usize| [f64::from(spec.mean[at]), f64::from(spec.std[at])];
        let made: Vec<_> = (0..channels).map(made).collect();
        if made.iter().all(|pair| *pair == [0.0, 1.0]) {
            return;
        }
        let inside = matches!(self.checkpoint.policy.as_str(), "pi0" | "smolvla");
        let (trained, whose) = match (self.checkpoint.scale_of(input), inside) {
            (Some(trained), _) => (Some(trained), "its normalisation"),
            // These policies take 0 to 1 to -1 to 1 themselves.
            (None, true) if !input.is_normalised() => {
                (Some(vec![[0.5, 0.5]; channels]), "the policy itself")
            }
            (None, _) if input.is_normalised() => {
                let mode = input.normalisation.as_deref().unwrap_or_default();
                return found.unknown(format!(
                    "{key}: by which numbers the policy normalises it ({mode}); the configuration uses mean and std {}",
                    pairs(&made)
                ));
            }
            (None, _) => (None, "nothing"),
        };
        match trained {
            Some(trained) if are_near(&trained, &made) => found.unknown(format!(
                "{key}: whether the program of the policy normalises it again; the configuration does what {whose} does"
            )),
            Some(trained) => found.differs(format!(
                "{key}: the policy was trained with mean and std {}, and the configuration uses {}",
                pairs(&trained),
                pairs(&made)
            )),
            None => found.differs(format!(
                "{key}: the policy takes values from 0 to 1, and the configuration normalises with mean and std {}",
                pairs(&made)
            )),
        }
    }

    fn state(&self, input: &Input, found: &mut Findings) {
        let [_, state] = self.vectors();
        self.vector(input, &state, found);
        if state.iter().any(|of| !outputs(of).is_empty()) {
            self.operators(input, &state, found);
        }
    }

    /// Another input: the stream of its name.
    fn other(&self, input: &Input, found: &mut Findings) {
        let key = &input.key;
        let name = key.strip_prefix("observation.").unwrap_or(key);
        match self.stream(name) {
            Some(stream) if stream.encoder.as_vector().is_some() => {
                self.vector(input, &[stream], found);
            }
            _ => found.differs(format!(
                "{key}: the policy takes this vector, and no vector is called {name}"
            )),
        }
    }

    /// The length of a vector that is made of these streams.
    fn vector(&self, input: &Input, streams: &[&StreamSpec], found: &mut Findings) {
        let key = &input.key;
        let expected: usize = input.shape.iter().product();
        let made: usize = streams.iter().map(|of| of.encoder.row_len()).sum();
        if made != expected {
            let of = streams.iter().map(|of| format!("{} {}", of.encoder.row_len(), of.name));
            let of: Vec<_> = of.collect();
            found.differs(format!(
                "{key}: the policy takes {expected} numbers, and the configuration makes {made}: {}",
                listed(&of)
            ));
        }
        streams.iter().for_each(|stream| self.steps(key, stream, found));
    }

    /// Compares operators with the policy's normalisation.
    fn operators(&self, input: &Input, streams: &[&StreamSpec], found: &mut Findings) {
        let key = &input.key;
        let trained = self.checkpoint.scale_of(input);
        let made: Option<Vec<_>> = streams.iter().flat_map(|of| scales(of)).collect();
        let again = match (trained, made) {
            (Some(trained), Some(made)) if are_near(&trained, &made) => {
                "whether the program of the policy normalises it again; the configuration does what its \
                 normalisation does"
            }
            _ => "whether the data of the training had the operators of the configuration",
        };
        found.unknown(format!("{key}: {again}"));
    }

    fn steps(&self, key: &str, stream: &StreamSpec, found: &mut Findings) {
        let name = &stream.name;
        let made = stream.steps();
        let Some(steps) = self.checkpoint.observation_steps else { return };
        if made != 1 && made != steps {
            found.differs(format!(
                "{key}: the policy takes {steps} step(s) of an observation, and the stream {name} has {made}"
            ));
        } else if made > 1 {
            found.unknown(format!(
                "{key}: the time between the {steps} steps in the training; the stream {name} has {} ms",
                stream.history_step_ns as f64 / 1e6
            ));
        }
    }

    fn action(&self, found: &mut Findings) {
        let [action, _] = self.vectors();
        let made: usize = action.iter().map(|of| of.encoder.row_len()).sum();
        match self.checkpoint.action {
            Some(expected) if !action.is_empty() && made != expected => found.differs(format!(
                "action: the policy gives {expected} numbers, and the configuration makes {made}"
            )),
            _ => {}
        }
    }

    /// Notes facts that no file of LeRobot tells.
    fn silent(&self, found: &mut Findings) {
        let Checkpoint { inputs, has_processor, crops_to, .. } = self.checkpoint;
        let rate = self.config.rate_hz;
        found.unknown(format!(
            "the rate of the frames in the training; the configuration has {rate} Hz"
        ));
        found.unknown("the lag of each input, and its greatest age".to_owned());
        if inputs.iter().any(|input| !input.is_image()) {
            found
                .unknown("the names, the order and the units of the numbers of vectors".to_owned());
        }
        if inputs.iter().any(Input::is_image) {
            found.unknown(
                "the filter, the fit and the codec of the images in the training".to_owned(),
            );
        }
        if let Some([height, width]) = crops_to {
            found.unknown(format!(
                "whether images were cropped before; the policy itself cuts out {width} x {height} px"
            ));
        }
        for input in inputs.iter().filter(|input| input.normalisation.is_none()) {
            found.unknown(format!("{}: how the policy normalises it", input.key));
        }
        if !has_processor {
            found.unknown(
                "the numbers of the normalisation: there is no policy_preprocessor.json".to_owned(),
            );
        }
    }
}

/// Outputs of a vector's operators; nothing if there are none.
fn outputs(stream: &StreamSpec) -> &[OutputChannel] {
    stream.encoder.as_vector().map_or(&[], |vector| &vector.outputs)
}

/// Per number of a step: `(x - mean) / std`, if its operators are no more than that.
fn scales(stream: &StreamSpec) -> Vec<Option<[f64; 2]>> {
    let of = |output: &OutputChannel| {
        let mut line = [1.0, 0.0];
        for operator in &output.operators {
            let Operator::Affine { shift, scale, offset } = *operator else { return None };
            line = [line[0] * scale, (line[1] - shift) * scale + offset];
        }
        (line[0] != 0.0).then(|| [-line[1] / line[0], 1.0 / line[0]])
    };
    match outputs(stream) {
        [] => vec![Some([0.0, 1.0]); stream.encoder.row_len()],
        outputs => outputs.iter().map(of).collect(),
    }
}

fn are_near(one: &[[f64; 2]], other: &[[f64; 2]]) -> bool {
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE * (1.0 + a.abs().max(b.abs()));
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.iter().zip(other).all(is_near))
}

/// Mean and standard deviation in words.
fn pairs(all: &[[f64; 2]]) -> String {
    let list = |at: usize| {
        let numbers = all.iter().map(|pair| ((pair[at] * 1e6).round() / 1e6).to_string());
        format!("[{}]", numbers.collect::<Vec<_>>().join(", "))
    };
    format!("{} and {}", list(0), list(1))
}

/// A list in words.
fn listed<T: AsRef<str>>(all: &[T]) -> String {
    match all {
        [] => "none".to_owned(),
        all => all.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "),
    }
}
