//! Resampling and fusing of tensors in one call from Python: nothing is done there for each tensor.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use robocache_ops::dtype::DType;
use robocache_ops::resample::{BatchSpec, Division, Times};

use super::gpu::{self, Ready};
use super::kept::Kept;
use super::resample::{Batch, fuse_on_host, spec_of};
use super::rule::Rule;
use crate::dlpack::{Exchange, MemoryPlace, Tensor, TensorElement};

/// Kinds of batches whose preparation is kept.
const MOST: usize = 256;
/// Rules that are found by their arguments' identity.
const MOST_RULES: usize = 32;
/// The most streams: those of one launch.
const MOST_STREAMS: usize = 4;

/// Takes tensors of torch in the usual case: contiguous, of the right types, on one device, with as many rows and
/// targets in every episode. To everything else its methods return `None`: the general way is then the one that
/// takes it, or that says what is wrong.
#[pyclass(frozen, module = "robocache._native")]
pub struct Direct {
    exchange: Exchange,
    /// `(shape, dtype, device) -> template`, for a device that is the number of a GPU, or None for the host.
    template: Py<PyAny>,
    /// `template -> tensor`.
    empty_like: Py<PyAny>,
    /// `() -> threads`.
    threads: Py<PyAny>,
    /// `(strategy, max_age_ns, max_gap_ns, fill, dim, lanes) -> Rule`.
    rule: Py<PyAny>,
    /// float32, float16 and bfloat16, and those of validity and ages.
    dtypes: [Py<PyAny>; 5],
    asks: Asks,
    /// Rules by their arguments, the last made last.
    rules: Mutex<Vec<Known>>,
    prepared: Mutex<PreparedBatches>,
}

/// Functions that say if a call may be taken as the caller gave it, and what None stands for.
struct Asks {
    /// `() -> bool`: true if something of torch takes operations before they are computed.
    watched: Py<PyAny>,
    /// `() -> bool`: true if gradients are wanted.
    gradients: Py<PyAny>,
    /// `tensor -> pair`, whose `tangent` is not None if a forward-mode gradient is wanted.
    unpack: Py<PyAny>,
    /// `lanes -> letters`.
    letters: Py<PyAny>,
    /// In place of a limit that is None, and of lanes.
    no_limit: Py<PyAny>,
    no_lanes: Py<PyAny>,
}

impl Asks {
    fn new([watched, gradients, unpack, letters, no_limit, no_lanes]: [Py<PyAny>; 6]) -> Self {
        Asks { watched, gradients, unpack, letters, no_limit, no_lanes }
    }

    /// True if nothing but a computation is asked for. Tensors of other types are found later.
    fn is_plain(&self, rows: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = rows.py();
        if self.watched.bind(py).call0()?.is_truthy()? {
            return Ok(false);
        }
        let unpacked = self.unpack.bind(py).call1((rows,))?;
        if !unpacked.getattr(pyo3::intern!(py, "tangent"))?.is_none() {
            return Ok(false);
        }
        let wants = rows.getattr_opt(pyo3::intern!(py, "requires_grad"))?;
        if !wants.is_some_and(|wants| wants.is_truthy().unwrap_or(true)) {
            return Ok(true);
        }
        Ok(!self.gradients.bind(py).call0()?.is_truthy()?)
    }
}

/// A rule, and the arguments that it was made of: as they are kept, others are other objects.
struct Known {
    arguments: [Py<PyAny>; 5],
    dim: usize,
    rule: Py<Rule>,
}

struct PreparedBatches {
    /// The last one, which is found without a hash.
    last: Option<(Key, Arc<Prepared>)>,
    all: Kept<Key, Arc<Prepared>>,
}

/// Rows, stamps, strategy, `max_age_ns`, `max_gap_ns`, fill and letters of lanes.
type StreamFields<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
);

/// How streams are given, and the results.
#[derive(Clone, Copy)]
struct Call {
    /// True if there is no dimension of streams in the report.
    single: bool,
    /// True if stamps and targets are seconds.
    seconds: bool,
}

/// Rows and stamps of a stream, and the arguments of its rule.
struct StreamRef<'a, 'py> {
    rows: &'a Bound<'py, PyAny>,
    stamps: &'a Bound<'py, PyAny>,
    rule: [&'a Bound<'py, PyAny>; 5],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// The GPU, or -1.
    device: i32,
    dtype: DType,
    /// Unit and type of stamps and targets.
    times: Times,
    /// True if there is no dimension of streams in the report.
    single: bool,
    /// The shape of the targets; the first is 0 if there is one dimension.
    lead: [usize; 2],
    /// The rule's number, the rows of an episode, and their type.
    streams: [Option<(u64, usize, DType)>; MOST_STREAMS],
}

/// Parts of a call that do not depend on addresses.
struct Prepared {
    spec: BatchSpec,
    /// The templates of values, validity and ages.
    outputs: [Py<PyAny>; 3],
    gpu: Option<Ready>,
}

/// Tensors that fit together, and the addresses of rows and stamps.
struct Inputs {
    key: Key,
    rules: [Option<Py<Rule>>; MOST_STREAMS],
    rows: [usize; MOST_STREAMS],
    stamps: [usize; MOST_STREAMS],
    targets: usize,
}

type Outputs<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Addresses of values, validity and ages.
type Addresses = (usize, usize, usize);

#[pymethods]
impl Direct {
    /// For tensors of the type `tensor`. Raises TypeError if the library cannot give them to C code.
    #[new]
    fn new(
        tensor: &Bound<'_, PyType>,
        template: Py<PyAny>,
        empty_like: Py<PyAny>,
        threads: Py<PyAny>,
        rule: Py<PyAny>,
        dtypes: [Py<PyAny>; 5],
        asks: [Py<PyAny>; 6],
    ) -> PyResult<Self> {
        let exchange = Exchange::of(tensor).ok_or_else(|| {
            PyTypeError::new_err(
                "expected a type with __dlpack_c_exchange_api__ of version 1, found none",
            )
        })?;
        let prepared = Mutex::new(PreparedBatches { last: None, all: Kept::new(MOST) });
        let rules = Mutex::default();
        let asks = Asks::new(asks);
        Ok(Direct { exchange, template, empty_like, threads, rule, dtypes, asks, rules, prepared })
    }

    /// Resamples one stream, by the arguments of `robocache.resample` as the caller gave them.
    #[allow(clippy::too_many_arguments)] // a tuple of them would have to be made and read
    fn take<'py>(
        &self,
        rows: &Bound<'py, PyAny>,
        stamps: &Bound<'py, PyAny>,
        targets: &Bound<'py, PyAny>,
        strategy: &Bound<'py, PyAny>,
        max_age_ns: &Bound<'py, PyAny>,
        max_gap_ns: &Bound<'py, PyAny>,
        fill: &Bound<'py, PyAny>,
        lanes: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        row_offsets: &Bound<'py, PyAny>,
        target_offsets: &Bound<'py, PyAny>,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Outputs<'py>>> {
        let py = rows.py();
        let none = [row_offsets, target_offsets, out].iter().all(|each| each.is_none());
        if !none || !self.exchange.is_one(rows) || !self.asks.is_plain(rows)? {
            return Ok(None);
        }
        let no_limit = self.asks.no_limit.bind(py);
        let [max_age_ns, max_gap_ns] =
            [max_age_ns, max_gap_ns].map(|given| if given.is_none() { no_limit } else { given });
        let letters;
        let lanes = match lanes.is_none() {
            true => self.asks.no_lanes.bind(py),
            false => {
                letters = self.asks.letters.bind(py).call1((lanes,))?;
                &letters
            }
        };
        let rule = [strategy, max_age_ns, max_gap_ns, fill, lanes];
        let streams = [StreamRef { rows, stamps, rule }];
        self.run(&streams, targets, dtype, Call { single: true, seconds: false })
    }

    /// The values of one stream, their validity and their ages.
    #[allow(clippy::too_many_arguments)] // a tuple of them would have to be made and read
    fn resample<'py>(
        &self,
        rows: &Bound<'py, PyAny>,
        stamps: &Bound<'py, PyAny>,
        targets: &Bound<'py, PyAny>,
        strategy: &Bound<'py, PyAny>,
        max_age_ns: &Bound<'py, PyAny>,
        max_gap_ns: &Bound<'py, PyAny>,
        fill: &Bound<'py, PyAny>,
        lanes: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Outputs<'py>>> {
        let rule = [strategy, max_age_ns, max_gap_ns, fill, lanes];
        let call = Call { single: true, seconds: false };
        self.run(&[StreamRef { rows, stamps, rule }], targets, dtype, call)
    }

    /// Fuses several streams, whose times may be `seconds` of one type.
    fn fuse<'py>(
        &self,
        streams: Vec<StreamFields<'py>>,
        targets: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        seconds: bool,
    ) -> PyResult<Option<Outputs<'py>>> {
        let streams = streams.iter().map(|(rows, stamps, a, b, c, d, e)| StreamRef {
            rows,
            stamps,
            rule: [a, b, c, d, e],
        });
        let call = Call { single: false, seconds };
        self.run(&streams.collect::<Vec<_>>(), targets, dtype, call)
    }
}

impl Direct {
    fn run<'py>(
        &self,
        streams: &[StreamRef<'_, 'py>],
        targets: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        call: Call,
    ) -> PyResult<Option<Outputs<'py>>> {
        let py = targets.py();
        let Some(inputs) = self.inputs(streams, targets, dtype, call)? else { return Ok(None) };
        let prepared = self.prepared(py, &inputs)?;
        let device = inputs.key.device;
        if prepared.gpu.as_ref().is_some_and(|gpu| !gpu.is_current()) {
            return Ok(None);
        }
        let Some((outputs, out)) = self.outputs(py, &prepared, device)? else { return Ok(None) };
        let of_streams = inputs.key.streams.iter().flatten().zip(inputs.stamps);
        let batch = Batch {
            spec: &prepared.spec,
            times: inputs.key.times,
            rows: inputs.rows[..streams.len()].to_vec(),
            stamps: of_streams.map(|((_, count, _), stamps)| (stamps, *count, 0)).collect(),
            targets: (inputs.targets, inputs.key.lead[1], 0),
        };
        match &prepared.gpu {
            Some(gpu) => {
                let stream = self.exchange.current_stream(py, device)?;
                gpu::launch(py, gpu, (device, stream), &batch, out)?;
            }
            None => {
                let threads = self.threads.bind(py).call0()?.extract()?;
                fuse_on_host(py, &batch, out, threads)?;
            }
        }
        Ok(Some(outputs))
    }

    /// Reads and compares the tensors.
    fn inputs<'py>(
        &self,
        streams: &[StreamRef<'_, 'py>],
        targets: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        call: Call,
    ) -> PyResult<Option<Inputs>> {
        let types = [DType::F32, DType::F16, DType::Bf16].into_iter().zip(&self.dtypes);
        let mut found = types.into_iter().find(|(_, known)| dtype.is(known)).map(|(own, _)| own);
        if let ([only], true) = (streams, dtype.is_none()) {
            found = self.exchange.tensor(only.rows).and_then(|rows| float_type(rows.element));
        }
        let (Some(dtype), Some((of_targets, times))) = (found, self.times(targets, call.seconds)?)
        else {
            return Ok(None);
        };
        let lead = match of_targets.shape() {
            [steps] => [0, *steps],
            [episodes, steps] => [*episodes, *steps],
            _ => return Ok(None),
        };
        let device = match of_targets.place {
            MemoryPlace::Host => -1,
            MemoryPlace::Cuda(device) => device,
            MemoryPlace::Pinned => return Ok(None),
        };
        if streams.len() > MOST_STREAMS {
            return Ok(None);
        }
        let streams_of_key = [None; MOST_STREAMS];
        let key = Key { device, dtype, times, single: call.single, lead, streams: streams_of_key };
        let rules = [const { None }; MOST_STREAMS];
        let targets = of_targets.data;
        let [rows, stamps] = [[0; MOST_STREAMS]; 2];
        let mut inputs = Inputs { key, rules, rows, stamps, targets };
        for (at, stream) in streams.iter().enumerate() {
            let Some((own, of_rows)) = self.rows(stream.rows, dtype)? else { return Ok(None) };
            let of_stamps = self.times(stream.stamps, call.seconds)?;
            let Some((of_stamps, _)) = of_stamps.filter(|(_, own)| *own == times) else {
                return Ok(None);
            };
            let Some((dim, counts)) = own.shape().split_last() else { return Ok(None) };
            let fits = [own.place, of_stamps.place] == [of_targets.place; 2]
                && counts == of_stamps.shape()
                && counts.len() == of_targets.shape().len()
                && (lead[0] == 0 || counts[0] == lead[0]);
            let Some(count) = counts.last().filter(|_| fits) else { return Ok(None) };
            let rule = self.rule(&stream.rule, *dim)?;
            inputs.key.streams[at] = Some((rule.get().id, *count, of_rows));
            inputs.rules[at] = Some(rule);
            (inputs.rows[at], inputs.stamps[at]) = (own.data, of_stamps.data);
        }
        Ok(Some(inputs))
    }

    /// The rule of a stream. Mostly its arguments are the objects of the last call.
    fn rule(&self, arguments: &[&Bound<'_, PyAny>; 5], dim: usize) -> PyResult<Py<Rule>> {
        let py = arguments[0].py();
        let lock = || self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&Known| {
            let mut pairs = arguments.iter().zip(&known.arguments);
            known.dim == dim && pairs.all(|(own, other)| own.is(other))
        };
        let known = lock().iter().rev().find(same).map(|known| known.rule.clone_ref(py));
        if let Some(rule) = known {
            return Ok(rule);
        }
        let [strategy, max_age_ns, max_gap_ns, fill, lanes] = arguments;
        let rule = (strategy, max_age_ns, max_gap_ns, fill, dim, lanes);
        let rule = self.rule.bind(py).call1(rule)?.cast_into::<Rule>()?.unbind();
        let arguments = arguments.map(|argument| argument.clone().unbind());
        // Freed without the lock, because that may run Python code.
        let mut oldest = None;
        let mut rules = lock();
        if rules.len() >= MOST_RULES {
            oldest = Some(rules.remove(0));
        }
        rules.push(Known { arguments, dim, rule: rule.clone_ref(py) });
        drop(rules);
        drop(oldest);
        Ok(rule)
    }

    /// A tensor of stamps or targets, if it needs no preparation, and its unit and type.
    fn times(&self, tensor: &Bound<'_, PyAny>, seconds: bool) -> PyResult<Option<(Tensor, Times)>> {
        let Some(found) = self.simple(tensor, 4) else { return Ok(None) };
        let times = match (found.element, seconds) {
            (TensorElement::I64, false) => Times::Nanos,
            (TensorElement::F32, true) => Times::Seconds32,
            (TensorElement::F64, true) => Times::Seconds64,
            _ => return Ok(None),
        };
        // No view of int64 is negated: only the imaginary part of a conjugate is, and complex integers are no type.
        let fits = found.data.is_multiple_of(times.size()) && !(seconds && is_negated(tensor)?);
        Ok(fits.then_some((found, times)))
    }

    /// Rows, likewise, and the type of their elements.
    fn rows(&self, tensor: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Option<(Tensor, DType)>> {
        // The kernels load 16 bytes at a time.
        let Some(found) = self.simple(tensor, 16) else { return Ok(None) };
        let own = float_type(found.element).filter(|own| *own == DType::F32 || *own == dtype);
        let Some(own) = own else { return Ok(None) };
        Ok((!is_negated(tensor)?).then_some((found, own)))
    }

    /// A tensor that has elements, which follow each other.
    fn simple(&self, tensor: &Bound<'_, PyAny>, alignment: usize) -> Option<Tensor> {
        let found = self.exchange.tensor(tensor)?;
        let there = found.contiguous && found.data != 0 && found.data.is_multiple_of(alignment);
        (there && !found.shape().contains(&0)).then_some(found)
    }

    fn prepared(&self, py: Python<'_>, inputs: &Inputs) -> PyResult<Arc<Prepared>> {
        let lock = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let key = &inputs.key;
        {
            let mut prepared = lock();
            if let Some((last, found)) = &prepared.last
                && last == key
            {
                return Ok(found.clone());
            }
            if let Some(found) = prepared.all.get(key) {
                prepared.last = Some((*key, found.clone()));
                return Ok(found);
            }
        }
        let rules = inputs.rules.iter().flatten().zip(key.streams.iter().flatten());
        let streams =
            rules.map(|(rule, (_, rows, dtype))| (rule.get(), Division::Even(*rows), *dtype));
        let steps = Division::Even(key.lead[1]);
        let spec = spec_of(key.dtype, key.lead[0].max(1), steps, streams)?;
        let gpu = match key.device {
            -1 => None,
            device => {
                let rules = inputs.rules.iter().flatten().map(|rule| rule.get().id);
                Some(gpu::ready(py, device, &spec, key.times, &rules.collect::<Vec<_>>())?)
            }
        };
        let outputs = self.templates(py, key, &spec)?;
        let made = Arc::new(Prepared { spec, outputs, gpu });
        lock().all.insert(*key, made.clone());
        Ok(made)
    }

    /// The templates of values, validity and ages.
    fn templates(&self, py: Python<'_>, key: &Key, spec: &BatchSpec) -> PyResult<[Py<PyAny>; 3]> {
        let device = (key.device >= 0).then_some(key.device);
        let of = |shape: &[usize], dtype: usize| {
            self.template.call1(py, (PyTuple::new(py, shape)?, &self.dtypes[dtype], device))
        };
        let lead = &key.lead[usize::from(key.lead[0] == 0)..];
        let streams = [spec.streams.len()];
        let streams = if key.single { &[] } else { &streams[..] };
        let steps = [streams, lead].concat();
        let values = [lead, &[spec.row_len()]].concat();
        Ok([of(&values, key.dtype as usize)?, of(&steps, 3)?, of(&steps, 4)?])
    }

    /// Makes a tensor, and its address. `None` if it is not what was asked for.
    fn make<'py>(
        &self,
        py: Python<'py>,
        prepared: &Prepared,
        device: i32,
        what: usize,
    ) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
        let place = match device {
            -1 => MemoryPlace::Host,
            device => MemoryPlace::Cuda(device),
        };
        let made = self.empty_like.bind(py).call1((&prepared.outputs[what],))?;
        let found = self.exchange.tensor(&made).filter(|found| {
            found.place == place && found.contiguous && found.data.is_multiple_of(16)
        });
        Ok(found.map(|found| (made, found.data)))
    }

    /// Tensors for the results, and their addresses.
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        prepared: &Prepared,
        device: i32,
    ) -> PyResult<Option<(Outputs<'py>, Addresses)>> {
        let make = |what| self.make(py, prepared, device, what);
        let (Some(values), Some(valid), Some(ages)) = (make(0)?, make(1)?, make(2)?) else {
            return Ok(None);
        };
        Ok(Some(((values.0, valid.0, ages.0), (values.1, valid.1, ages.1))))
    }
}

/// True if a tensor is a negated view: its values are not those in its memory.
fn is_negated(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.call_method0(pyo3::intern!(tensor.py(), "is_neg"))?.is_truthy()
}

/// The type of elements that are resampled.
fn float_type(element: TensorElement) -> Option<DType> {
    match element {
        TensorElement::F32 => Some(DType::F32),
        TensorElement::F16 => Some(DType::F16),
        TensorElement::Bf16 => Some(DType::Bf16),
        _ => None,
    }
}
