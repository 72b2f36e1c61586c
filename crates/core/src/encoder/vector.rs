//! Numbers, which are interpolated and have operators.

mod row;

use serde_json::{Map, Value, json};

pub use self::row::VectorEncoder;
use super::{CpuCode, Encoder, EncoderSetup, Meaning};
use crate::sample::SampleKind;
use robocache_ops::dtype::DType;
use robocache_ops::operators::{Operator, OutputChannel, VectorSpec};
use robocache_ops::packing::Run;

impl Encoder for VectorSpec {
    fn kind(&self) -> &'static str {
        super::kind::VECTOR
    }

    fn plural(&self) -> &'static str {
        "vectors"
    }

    fn takes(&self) -> SampleKind {
        SampleKind::Vector
    }

    fn row_shape(&self) -> Vec<usize> {
        vec![self.len()]
    }

    fn axes(&self) -> &'static [&'static str] {
        &["channel"]
    }

    fn channels(&self) -> Vec<String> {
        self.names().into_iter().map(str::to_owned).collect()
    }

    fn meaning(&self, _: DType) -> Meaning {
        let operators =
            |output: &OutputChannel| serde_json::to_string(&output.operators).unwrap_or_default();
        Meaning {
            units: self.outputs.iter().map(|output| output.unit.to_owned()).collect(),
            operators: self.outputs.iter().map(operators).collect(),
            ..Meaning::default()
        }
    }

    fn settings(&self, _: DType) -> Value {
        let lanes: Vec<_> = self.channels.iter().map(|channel| channel.lane).collect();
        // In the order of the keys, whatever the features of `serde_json`.
        let mut all = Map::new();
        if self.groups.len() > 1 {
            let groups: Vec<_> = self.groups.iter().map(|group| &group.channels).collect();
            all.insert("groups".to_owned(), json!(groups));
        }
        all.insert("lanes".to_owned(), json!(lanes));
        if !self.outputs.is_empty() {
            let names: Vec<_> = self.channels.iter().map(|channel| &channel.name).collect();
            let outputs = self.outputs.iter();
            let outputs = outputs.map(|output| super::without(super::json_of(output), &["name"]));
            all.insert("of".to_owned(), json!(names));
            all.insert("outputs".to_owned(), outputs.collect());
        }
        Value::Object(all)
    }

    fn cpu(&self, _: EncoderSetup) -> CpuCode<'_> {
        CpuCode::Floats(self)
    }

    fn rings(&self) -> usize {
        self.groups.len()
    }

    fn ring_row_len(&self, group: usize) -> usize {
        self.groups[group].channels.len()
    }

    fn runs(&self, group: usize) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (row_at, step_at) in self.places(group).into_iter().enumerate() {
            match runs.last_mut() {
                Some(run) if run.step_at + run.len == step_at => run.len += 1,
                _ => runs.push(Run { row_at, step_at, len: 1 }),
            }
        }
        runs
    }

    fn unwraps(&self) -> bool {
        let unwraps = |output: &OutputChannel| output.operators.contains(&Operator::Unwrap);
        self.outputs.iter().any(unwraps)
    }

    fn as_vector(&self) -> Option<&VectorSpec> {
        Some(self)
    }
}
