//! Keys of a contract for a stream that is a vector.

use serde::Deserialize;
use serde_json::Value;

use super::{Contract, ContractError, wrong};
use crate::encoder::kind;
use robocache_ops::operators::{Operator, Source};
use robocache_ops::resample::Lane;

/// Keys of a stream that is a vector.
#[derive(Deserialize)]
pub(super) struct VectorKeys {
    kind: String,
    pub(super) channels: Option<Vec<String>>,
    pub(super) dtype: String,
    pub(super) shape: Vec<usize>,
    #[serde(default)]
    pub(super) present_step: Option<usize>,
    encoder: Value,
}

/// An element of a vector with operators.
#[derive(Clone, Deserialize)]
pub(super) struct Output {
    pub(super) unit: String,
    pub(super) source: Source,
    pub(super) operators: Vec<Operator>,
}

impl Contract {
    /// Keys of a stream that must be a vector.
    pub(super) fn vector(&self, name: &str) -> Result<VectorKeys, ContractError> {
        let keys = VectorKeys::deserialize(self.known(name)?).ok();
        let keys = keys.filter(|keys| keys.kind == kind::VECTOR && keys.shape.len() == 2);
        keys.ok_or_else(|| wrong(name, "a vector", "another kind of stream".to_owned()))
    }
}

impl VectorKeys {
    /// The elements of a step, with their operators.
    pub(super) fn outputs(&self, name: &str) -> Result<Vec<Output>, ContractError> {
        let width = self.shape[1];
        let lanes = self.encoder.get("lanes").map(Vec::<Lane>::deserialize);
        let read = match self.encoder.get("outputs") {
            Some(outputs) => Vec::<Output>::deserialize(outputs),
            None => lanes.unwrap_or_else(|| Ok(Vec::new())).map(|lanes| {
                let unit = |at: usize| match lanes.get(at) {
                    Some(Lane::Angular) => "rad".to_owned(),
                    _ => String::new(),
                };
                let as_it_is = |at: usize| Output {
                    unit: unit(at),
                    source: Source::Channel(at),
                    operators: Vec::new(),
                };
                (0..width).map(as_it_is).collect()
            }),
        };
        let fits = |outputs: &Vec<Output>| {
            let names = self.channels.as_ref().is_none_or(|names| names.len() == width);
            outputs.len() == width && names
        };
        let outputs = read.ok().filter(fits);
        outputs.ok_or_else(|| wrong(name, "channels as its shape", "others".to_owned()))
    }
}

/// A name without the topic of its input.
pub(super) fn bare(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, own)| own)
}

/// Place of the channel with this name. If several inputs have joints of their own, the topic in front of a name may be left
/// out.
pub(crate) fn channel<'a>(
    channels: impl Iterator<Item = &'a str> + Clone,
    name: &str,
) -> Option<usize> {
    let exact = channels.clone().position(|channel| channel == name);
    let mut behind = channels.enumerate().filter(|(_, channel)| bare(channel) == name);
    let first = behind.next().map(|(at, _)| at);
    // Two arms may have joints of one name.
    exact.or(first.filter(|_| behind.next().is_none()))
}
