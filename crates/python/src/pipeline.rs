//! `robocache.Pipeline`: messages in, tensors out, in the caller's process and by the caller's clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use robocache_core::backend::{self, Choice};
use robocache_core::config;
use robocache_core::contract::Contract;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{
    Accepted, ArraySample, Arrival, NotTaken, Pipeline as Core, TickOutcome,
};
use robocache_core::sample::SampleKind;
use robocache_core::sample::{Header, StampError};
use robocache_core::schema::Prefixes;
use robocache_core::spec::{Config, InputId};
use robocache_data::replay::{InputSummary, StreamSummary};
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::{Runtime, RuntimeError, TimeSource};
use serde_json::json;

use crate::dlpack::{Array, TensorElement};
use crate::errors::{failed, wrong};
use crate::freeing::Unlocked;
use crate::held_tensor::Messages;
use crate::process::Process;
use crate::tensor::TensorBytes;

/// The configuration of a text. Definitions of messages come from the ROS that is sourced.
pub(crate) fn parse(text: &str, file: &str) -> PyResult<Config> {
    config::parse_with(text, file, &Prefixes::of_environment()).map_err(wrong)
}

/// Choice of a backend, by its name.
fn choice(backend: &str) -> PyResult<Choice> {
    backend.parse().map_err(|error| wrong(format!("backend: {error}")))
}

/// Backend of a pipeline, and the memory of its tensors.
#[derive(Clone, Copy)]
pub(crate) struct PipelineBackend {
    backend: Choice,
    device: usize,
    on_device: bool,
}

impl PipelineBackend {
    /// Reads the names of both.
    pub(crate) fn of(backend: &str, device: usize, output: &str) -> PyResult<Self> {
        let on_device = match output {
            "host" => false,
            "cuda" => true,
            _ => return Err(wrong(format!("output: expected host or cuda, found '{output}'"))),
        };
        Ok(PipelineBackend { backend: choice(backend)?, device, on_device })
    }

    /// A pipeline with its memory.
    pub(crate) fn make(self, config: Config) -> PyResult<Core> {
        let create = if self.on_device { backend::create_for_device } else { backend::create };
        let backend = create(self.backend, self.device, &config, &Layout::new(&config));
        Core::new(config, backend.map_err(failed)?).map_err(failed)
    }

    /// A message for a tensor, in memory of the device if tensors are there.
    pub(crate) fn message(self, core: &Core, messages: &Messages) -> PyResult<TensorMessage> {
        let message = messages.take().unwrap_or_else(|| core.new_message());
        self.check(&message).map(|()| message)
    }

    /// Checks that a message is where tensors were asked for: never silently in other memory.
    pub(crate) fn check(self, message: &TensorMessage) -> PyResult<()> {
        match self.on_device && message.on_device().is_none() {
            true => Err(failed("the GPU has no memory for a tensor")),
            false => Ok(()),
        }
    }

    /// Makes `count` messages for later tensors.
    pub(crate) fn prepare(self, core: &Core, messages: &Messages, count: usize) -> PyResult<()> {
        // All of them at once: `message` would take again what was put back.
        let made = std::iter::repeat_with(|| self.message(core, messages)).take(count);
        let made = made.collect::<PyResult<Vec<_>>>()?;
        made.into_iter().for_each(|message| messages.put(message));
        Ok(())
    }
}

/// The names of a configuration's inputs.
pub(crate) struct Names(HashMap<String, Vec<InputId>>);

impl Names {
    /// Inputs by their names, their topics, and their topics as a node in the root namespace resolves them.
    pub(crate) fn of(config: &Config) -> Self {
        let mut names: HashMap<String, Vec<InputId>> = HashMap::new();
        let mut topics: BTreeMap<String, Vec<InputId>> = BTreeMap::new();
        for id in config.input_ids() {
            let spec = config.input(id);
            names.insert(spec.name.clone(), vec![id]);
            let absolute = format!("/{}", spec.topic.trim_start_matches('/'));
            topics.entry(absolute).or_default().push(id);
            if !spec.topic.starts_with('/') {
                topics.entry(spec.topic.clone()).or_default().push(id);
            }
        }
        // A name counts before a topic.
        for (topic, ids) in topics {
            names.entry(topic).or_insert(ids);
        }
        Names(names)
    }

    /// The inputs of a name.
    pub(crate) fn find(&self, name: &str) -> PyResult<&[InputId]> {
        self.0.get(name).map(Vec::as_slice).ok_or_else(|| {
            let mut known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            known.sort_unstable();
            PyKeyError::new_err(format!(
                "input: expected one of {}, found {name}",
                known.join(", ")
            ))
        })
    }
}

/// Description of the inputs, as JSON.
pub(crate) fn inputs_json(core: &Core) -> String {
    let config = core.config();
    let input = |id: InputId| {
        let spec = config.input(id);
        let vector = spec.stream.and_then(|stream| config.stream(stream).encoder.as_vector());
        let channels = vector.map_or(Vec::new(), |vector| {
            let name = |channel: usize| vector.channels[channel].name.as_str();
            core.channels_of(id).into_iter().map(name).collect()
        });
        let stream = spec.stream.map(|stream| config.stream(stream).name.clone());
        json!({
            "name": spec.name, "stream": stream, "topic": spec.topic, "ros_type": spec.ros_type,
            "reliability": spec.qos.reliability, "durability": spec.qos.durability, "depth": spec.qos.depth,
            "timeline": spec.timeline.name(), "large": spec.is_large(),
            "takes": spec.takes_arrays().map_or("message", SampleKind::name), "channels": channels,
        })
    };
    json!(config.input_ids().map(input).collect::<Vec<_>>()).to_string()
}

/// The counters of a runtime, as JSON.
pub(crate) fn stats_json(runtime: &Runtime) -> String {
    let held_back: serde_json::Map<_, _> = runtime
        .streams()
        .map(|id| (runtime.stream_spec(id).name.clone(), json!(runtime.pipeline.held_back(id))))
        .collect();
    let ticks = &runtime.ticks;
    json!({
        "ticks": ticks.published.get(),
        "held_back": ticks.held_back.get(),
        "held_back_by": held_back,
        "overruns": ticks.grid.overruns.get(),
        "unsent": ticks.unsent.get(),
        "refused": ticks.publish_failed.get(),
        "clock_jumps": runtime.pipeline.clock_jumps(),
        "clock_set_ahead": runtime.clock.times_set_ahead(),
        "backend": runtime.pipeline.backend_name(),
        "streams": StreamSummary::all(runtime),
        "inputs": InputSummary::all(runtime),
    })
    .to_string()
}

/// The outcome of a message: (whether it was taken, rows, reason, detail).
type Result3 = (bool, u32, Option<&'static str>, Option<String>);

fn told(given: Result<Accepted, NotTaken<RuntimeError>>) -> PyResult<Result3> {
    Ok(match given {
        Ok(taken) => {
            let reason = taken.part.as_ref().map(|part| part.reason.name());
            (true, taken.rows + taken.transforms, reason, taken.part.map(|part| part.detail))
        }
        Err(NotTaken::Dropped(rejected)) => {
            (false, 0, Some(rejected.reason.name()), Some(rejected.detail))
        }
        Err(NotTaken::Waits(_)) => {
            let detail = "it waits for a transform that may still come";
            (false, 0, Some("waits"), Some(detail.to_owned()))
        }
        Err(NotTaken::Failed(error)) => return Err(failed(error)),
    })
}

/// The numbers of an array of `float64`; none of another one.
fn doubles(array: &Array, data: &[u8]) -> PyResult<Vec<f64>> {
    if array.element != TensorElement::F64 {
        return Ok(Vec::new());
    }
    let number = |bytes: &[u8]| bytes.try_into().map(f64::from_le_bytes).map_err(wrong);
    data.chunks_exact(size_of::<f64>()).map(number).collect()
}

/// The pipeline of a configuration. `robocache.Pipeline` is what users have.
#[pyclass(frozen, module = "robocache._native")]
pub struct Pipeline {
    runtime: Unlocked<Runtime>,
    names: Names,
    epoch: Mutex<Epoch>,
    messages: Arc<Messages>,
    target: PipelineBackend,
    digest: bool,
    process: Process,
}

impl Pipeline {
    fn epoch(&self) -> Epoch {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrival(&self, at: i64) -> Arrival {
        let stamp = Some(Stamp::from_nanos(at));
        let epoch = self.epoch();
        Arrival { stamp, epoch, ..Arrival::default() }
    }

    fn core(&self) -> PyResult<&Core> {
        self.process.check("a Pipeline")?;
        Ok(&self.runtime.pipeline)
    }
}

#[pymethods]
impl Pipeline {
    #[new]
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        backend: &str,
        device: usize,
        output: &str,
        digest: bool,
    ) -> PyResult<Self> {
        let target = PipelineBackend::of(backend, device, output)?;
        py.detach(|| {
            let config = parse(text, file)?;
            let names = Names::of(&config);
            let runtime = Unlocked::new(Runtime::direct(target.make(config)?, TimeSource::real()));
            let messages = Arc::<Messages>::default();
            // So that the first ticks reserve no memory.
            target.prepare(&runtime.pipeline, &messages, 3)?;
            let epoch = Mutex::default();
            let process = Process::this();
            Ok(Pipeline { runtime, names, epoch, messages, target, digest, process })
        })
    }

    /// Takes a message of every input of this name.
    fn push(
        &self,
        py: Python<'_>,
        input: &str,
        message: PyBackedBytes,
        receive_ns: i64,
    ) -> PyResult<Vec<Result3>> {
        self.core()?;
        let arrival = self.arrival(receive_ns);
        let inputs = self.names.find(input)?;
        py.detach(|| {
            let give = |id: &InputId| told(self.runtime.give(*id, &message, arrival));
            inputs.iter().map(give).collect()
        })
    }

    /// Takes an array of an input: an image if `encoding` is given, points if `fields` are, else a vector.
    #[pyo3(signature = (input, array, stamps_ns, frame_id, encoding, fields))]
    #[allow(clippy::too_many_arguments)] // Python has them by their names
    fn push_array(
        &self,
        py: Python<'_>,
        input: &str,
        array: &Bound<'_, PyAny>,
        stamps_ns: (i64, i64),
        frame_id: Option<&str>,
        encoding: Option<&str>,
        fields: Option<Vec<String>>,
    ) -> PyResult<Result3> {
        let core = self.core()?;
        let [id] = *self.names.find(input)? else {
            return Err(wrong(format!("input: expected one input, found several of {input}")));
        };
        let array = Array::read(array, "array", -1)?;
        let data = array.bytes("array")?;
        let (stamp_ns, receive_ns) = stamps_ns;
        let stamp = match stamp_ns {
            0 => Err(StampError::Zero),
            _ => Ok(Stamp::from_nanos(stamp_ns)),
        };
        let expected_frame = core.config().input(id).frame_id.as_deref();
        let frame_id = frame_id.or(expected_frame).unwrap_or_default();
        let header = Header { stamp, frame_id, child_frame_id: "" };
        let vector = doubles(&array, data)?;
        let sample = match (encoding, &fields) {
            (Some(encoding), _) => {
                let [height, width] = [0, 1].map(|at| array.shape.get(at).copied().unwrap_or(1));
                ArraySample::Image { size: [width, height], encoding, data }
            }
            (None, Some(fields)) => ArraySample::Points { fields, data },
            (None, None) => ArraySample::Vector(&vector),
        };
        let arrival = self.arrival(receive_ns);
        told(py.detach(|| self.runtime.give_sample(id, &header, &sample, arrival)))
    }

    /// The tensor of a tick; the name of the stream that holds it back, if one does.
    fn tick(&self, py: Python<'_>, number: i64) -> PyResult<(Option<TensorBytes>, Option<String>)> {
        let core = self.core()?;
        py.detach(|| {
            let mut message = self.target.message(core, &self.messages)?;
            loop {
                match self.runtime.tick(number, self.epoch(), &mut message).map_err(failed)? {
                    TickOutcome::Ready => break,
                    TickOutcome::HeldBack { stream } => {
                        self.messages.put(message);
                        return Ok((None, Some(core.config().stream(stream).name.clone())));
                    }
                    // Another thread began an epoch.
                    TickOutcome::Past => {}
                }
            }
            if self.digest {
                message.seal();
            }
            Ok((Some(TensorBytes::of_message(message, &self.messages)), None))
        })
    }

    fn begin_epoch(&self, py: Python<'_>) -> PyResult<u64> {
        self.core()?;
        py.detach(|| {
            let mut epoch = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
            *epoch = epoch.next(None);
            self.runtime.begin(*epoch);
            Ok(epoch.number())
        })
    }

    fn number_at(&self, ns: i64) -> PyResult<i64> {
        Ok(self.core()?.config().grid.tick_at(Stamp::from_nanos(ns)))
    }

    fn stamp_of(&self, number: i64) -> PyResult<i64> {
        Ok(self.core()?.config().grid.stamp_of(number).nanos())
    }

    #[getter]
    fn period_ns(&self) -> PyResult<i64> {
        Ok(self.core()?.config().grid.period_ns())
    }

    #[getter]
    fn backend(&self) -> PyResult<&'static str> {
        Ok(self.core()?.backend_name())
    }

    fn contract(&self) -> PyResult<String> {
        Ok(Contract::of(self.core()?.config()).to_string())
    }

    fn layout(&self) -> PyResult<String> {
        Ok(json!(self.core()?.segment_infos(&[])).to_string())
    }

    fn inputs(&self) -> PyResult<String> {
        Ok(inputs_json(self.core()?))
    }

    fn info(&self) -> PyResult<Vec<u8>> {
        let core = self.core()?;
        Ok(core.info(&robocache_core::message::Publication {
            stamp: Stamp::ZERO,
            topics: &[],
            digest: self.digest,
            backend: core.backend_name(),
        }))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.core()?;
        Ok(py.detach(|| stats_json(&self.runtime)))
    }
}
