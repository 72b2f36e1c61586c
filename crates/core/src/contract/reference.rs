//! The values of a tensor that relative rows of actions are added to.

use super::vector::{Output, bare, channel};
use super::{ACTIONS, Actions, Contract, ContractError, wrong};
use robocache_ops::operators::{Operator, Source};

/// The values of a tensor that relative rows are added to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The stream.
    pub stream: String,
    /// Shape of its segment: steps, then channels. The newest step counts.
    pub shape: [usize; 2],
    /// Per name of the actions: its place in a step, and the operators there; `None` if it is not relative.
    places: Vec<Option<(usize, Vec<Operator>)>>,
}

impl Reference {
    /// The reference of each name of the actions, by a step of the stream: its value before the operators of the training.
    /// It is 0 for a name that is not relative.
    pub fn values(&self, step: &[f32]) -> Vec<f32> {
        let value = |place: &Option<(usize, Vec<Operator>)>| {
            place.as_ref().map_or(0.0, |(at, operators)| {
                let value = step.get(*at).copied().unwrap_or(f32::NAN);
                robocache_ops::operators::taken_back(operators, f64::from(value)) as f32
            })
        };
        self.places.iter().map(value).collect()
    }
}

impl Contract {
    /// The values of the tensor that relative rows of these actions are added to; `None` if no row is relative.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if the tensor does not have these values in full.
    pub fn reference(&self, actions: &Actions) -> Result<Option<Reference>, ContractError> {
        let Some(stream) = &actions.reference else { return Ok(None) };
        let key = format!("{ACTIONS}.{}.reference", actions.stream);
        let wrong = |expected: &str, found: String| wrong(&key, expected, found);
        let vector = self.vector(stream)?;
        let outputs = vector.outputs(stream)?;
        if vector.dtype != "f32" {
            let expected = "a stream of dtype f32: rows are added to its values";
            return Err(wrong(expected, format!("{stream} of {}", vector.dtype)));
        }
        // A served value that somebody accepts is made by other operators than these.
        let accepted = self.accepted_keys().find(|key| {
            let own = key.strip_prefix(stream.as_str()).and_then(|key| key.strip_prefix('.'));
            own.is_some_and(|key| !key.starts_with("targets_ns"))
        });
        if let Some(accepted) = accepted {
            let expected = "a stream that is served as in the training";
            return Err(wrong(expected, format!("{accepted} among the accepted differences")));
        }
        let channels = vector.channels.as_deref().unwrap_or_default();
        let place = |(name, relative): (&String, &bool)| {
            if !relative {
                return Ok(None);
            }
            let names = channels.iter().map(String::as_str);
            let Some(at) = channel(names, bare(name)) else {
                let expected = format!("a stream with the channel {}", bare(name));
                return Err(wrong(&expected, format!("{stream} with {}", channels.join(", "))));
            };
            let Output { source, operators, .. } = &outputs[at];
            let limits = operators.iter().any(|of| matches!(of, Operator::Clamp { .. }));
            let turns = operators.contains(&Operator::Unwrap)
                && vector.present_step.is_some_and(|step| step + 1 != vector.shape[0]);
            if limits || turns || !matches!(source, Source::Channel(_)) {
                let expected = "operators that can be taken back from the newest step: no clamp, no rotation_6d, and \
                                unwrap without a horizon";
                return Err(wrong(expected, format!("others of {stream}'s {}", channels[at])));
            }
            Ok(Some((at, operators.clone())))
        };
        let places = actions.names.iter().zip(&actions.relative).map(place);
        let places = places.collect::<Result<_, _>>()?;
        let shape = [vector.shape[0], vector.shape[1]];
        Ok(Some(Reference { stream: stream.clone(), shape, places }))
    }
}
