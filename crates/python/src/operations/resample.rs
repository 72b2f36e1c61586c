//! Resampling and fusing, and the gradient.

use pyo3::prelude::*;
use robocache_ops::dtype::DType;
use robocache_ops::parallel;
use robocache_ops::resample::{
    BatchInput, BatchOutputMut, BatchSpec, BatchStream, Division, Times, batch,
    gradient as gradients, nanos,
};

use super::rule::Rule;
use super::{Place, dtype, gpu};
use crate::dlpack::{values, values_mut};
use crate::errors::wrong;

/// Instants: address, number of all, address of the `i64` offsets of episodes or 0. Without offsets, the number is that
/// of an episode.
pub(super) type Instants = (usize, usize, usize);

/// Types of the values and of the times, by the numbers of Python's side.
type Types = (u32, u32);

/// A stream: its rule, the address and the element type of its rows, and its stamps.
type StreamArguments<'py> = (PyRef<'py, Rule>, usize, u32, Instants);

/// The most rows or targets: the kernels count them in 31 bits.
const MOST: usize = i32::MAX as usize;

/// The times of a number that Python's side uses.
fn times_of(code: u32) -> PyResult<Times> {
    match code {
        0 => Ok(Times::Nanos),
        1 => Ok(Times::Seconds32),
        2 => Ok(Times::Seconds64),
        _ => Err(wrong(format!("expected times of a known type, found {code}"))),
    }
}

/// The specification of a batch. A stream is its rule, its rows and their type.
///
/// # Errors
/// `ValueError` if there are too many rows or targets, or types that do not go together.
pub(super) fn spec_of<'a>(
    dtype: DType,
    episodes: usize,
    steps: Division,
    streams: impl IntoIterator<Item = (&'a Rule, Division, DType)>,
) -> PyResult<BatchSpec> {
    let streams = streams.into_iter().map(|(rule, rows, dtype)| BatchStream {
        rule: rule.rule,
        rows,
        dtype,
        lanes: rule.lanes.clone(),
    });
    let spec = BatchSpec { episodes, steps, dtype, streams: streams.collect() };
    for division in spec.streams.iter().map(|stream| stream.rows).chain([spec.steps]) {
        let all = match division {
            Division::Even(each) => each.checked_mul(episodes),
            Division::Offsets(all) => Some(all),
        };
        if all.is_none_or(|all| all > MOST) || episodes >= MOST {
            return Err(wrong(format!("expected at most {MOST} rows and targets")));
        }
    }
    match spec.fault() {
        Some(fault) => Err(wrong(fault)),
        None => Ok(spec),
    }
}

fn spec_of_arguments(
    of_values: u32,
    episodes: usize,
    targets: Instants,
    streams: &[StreamArguments<'_>],
) -> PyResult<BatchSpec> {
    let division = |(_, count, offsets): Instants| match offsets {
        0 => Division::Even(count),
        _ => Division::Offsets(count),
    };
    let of_streams = streams
        .iter()
        .map(|(rule, _, of_rows, stamps)| Ok((&**rule, division(*stamps), dtype(*of_rows)?)));
    let of_streams = of_streams.collect::<PyResult<Vec<_>>>()?;
    spec_of(dtype(of_values)?, episodes, division(targets), of_streams)
}

/// A batch whose arguments were checked.
pub(super) struct Batch<'a> {
    pub(super) spec: &'a BatchSpec,
    /// Unit and type of stamps and targets.
    pub(super) times: Times,
    /// Addresses of rows.
    pub(super) rows: Vec<usize>,
    pub(super) stamps: Vec<Instants>,
    pub(super) targets: Instants,
}

impl<'a> Batch<'a> {
    fn new(
        spec: &'a BatchSpec,
        times: Times,
        targets: Instants,
        streams: &[StreamArguments<'_>],
    ) -> Self {
        Batch {
            spec,
            times,
            rows: streams.iter().map(|stream| stream.1).collect(),
            stamps: streams.iter().map(|stream| stream.3).collect(),
            targets,
        }
    }

    /// Times must be at multiples of their size, offsets and `ages` at multiples of 8 bytes.
    fn expect_aligned(&self, ages: &[usize]) -> PyResult<()> {
        let instants = || self.stamps.iter().chain([&self.targets]);
        let mut times = instants().map(|all| all.0);
        let mut others = instants().map(|all| all.2).chain(ages.iter().copied());
        let size = self.times.size();
        match times.all(|at| at.is_multiple_of(size)) && others.all(|at| at.is_multiple_of(8)) {
            true => Ok(()),
            false => Err(wrong(format!(
                "expected times at multiples of {size} bytes, offsets and ages at multiples of 8"
            ))),
        }
    }

    /// Nanoseconds of the stamps of each stream, and of the targets, if times on the host are seconds.
    ///
    /// # Safety
    /// The addresses are those of arrays of the shapes that the arguments say, which stay as they are.
    unsafe fn nanos(&self) -> Result<Vec<Vec<i64>>, String> {
        let all = self.counts().zip(self.stamps.iter().chain([&self.targets]));
        // SAFETY: the caller's promise is the same.
        let converted = |(count, (address, _, _)): (usize, &Instants)| unsafe {
            match self.times {
                Times::Nanos => Ok(Vec::new()),
                Times::Seconds32 => nanos(values::<f32>(*address, count)),
                Times::Seconds64 => nanos(values::<f64>(*address, count)),
            }
        };
        all.map(converted).collect()
    }

    /// The number of stamps of each stream, and of targets.
    fn counts(&self) -> impl Iterator<Item = usize> {
        let streams = self.spec.streams.iter();
        let stamps = streams.map(|stream| stream.rows.total(self.spec.episodes));
        stamps.chain([self.spec.targets()])
    }

    /// The input of a batch on the host. `converted` are its times as [`Self::nanos`] gives them. The rows are there, or
    /// nothing reads them.
    ///
    /// # Safety
    /// The addresses are those of arrays of the shapes that the arguments say, which stay as they are.
    unsafe fn input<'b>(&'b self, converted: &'b [Vec<i64>]) -> BatchInput<'b> {
        let episodes = self.spec.episodes;
        // SAFETY: the caller's promise is the same.
        let offsets = |(_, _, offsets): Instants| unsafe {
            values::<i64>(offsets, if offsets == 0 { 0 } else { episodes + 1 })
        };
        let all = self.counts().zip(self.stamps.iter().chain([&self.targets])).zip(converted);
        let mut instants: Vec<&[i64]> = all
            .map(|((count, (address, _, _)), converted)| match self.times {
                // SAFETY: as above.
                Times::Nanos => unsafe { values(*address, count) },
                Times::Seconds32 | Times::Seconds64 => converted,
            })
            .collect();
        let targets = instants.pop().unwrap_or_default();
        let rows = self.spec.streams.iter().zip(&self.rows).map(|(stream, address)| {
            let row_bytes = stream.lanes.len() * stream.dtype.size();
            // SAFETY: as above.
            unsafe { values::<u8>(*address, stream.rows.total(episodes) * row_bytes) }
        });
        BatchInput {
            rows: rows.collect(),
            stamps: instants,
            row_offsets: self.stamps.iter().map(|instants| offsets(*instants)).collect(),
            targets,
            target_offsets: offsets(self.targets),
        }
    }
}

/// Resamples every stream at the targets, into one array; `out` has the addresses of values, validity and ages.
///
/// On the host the stamps and the offsets are checked. On a GPU they are not; wrong offsets give values that are
/// not valid.
#[pyfunction]
pub(crate) fn fuse(
    py: Python<'_>,
    place: Place,
    types: Types,
    episodes: usize,
    targets: Instants,
    out: (usize, usize, usize),
    streams: Vec<StreamArguments<'_>>,
) -> PyResult<()> {
    let spec = spec_of_arguments(types.0, episodes, targets, &streams)?;
    let batch = Batch::new(&spec, times_of(types.1)?, targets, &streams);
    batch.expect_aligned(&[out.2])?;
    if place.0 >= 0 {
        let rules: Vec<_> = streams.iter().map(|stream| stream.0.id).collect();
        return gpu::fuse(py, place, &batch, out, &rules);
    }
    fuse_on_host(py, &batch, out, threads(place))
}

/// Fuses a batch of arrays of the host, whose shapes were checked.
pub(super) fn fuse_on_host(
    py: Python<'_>,
    batch: &Batch<'_>,
    out: (usize, usize, usize),
    threads: usize,
) -> PyResult<()> {
    let spec = batch.spec;
    py.detach(|| {
        // SAFETY: the shapes were checked, and the arrays stay until this returns.
        let converted = unsafe { batch.nanos()? };
        // SAFETY: likewise.
        let (input, output) = unsafe {
            let steps = spec.streams.len() * spec.targets();
            let data = values_mut::<u8>(out.0, spec.targets() * spec.row_bytes());
            let report = (values_mut::<u8>(out.1, steps), values_mut::<i64>(out.2, steps));
            (batch.input(&converted), BatchOutputMut { data, report: Some(report) })
        };
        if let Some(mismatch) = spec.mismatch(&input).or_else(|| spec.disorder(&input)) {
            return Err(mismatch);
        }
        batch::fuse_into(spec, &input, output, threads);
        Ok(())
    })
    .map_err(wrong)
}

/// Writes the gradients of the rows of every stream, given that of the values at the address `of_values`. The
/// addresses of the rows in `streams` are those of their gradients.
#[pyfunction]
pub(crate) fn gradient(
    py: Python<'_>,
    place: Place,
    types: Types,
    episodes: usize,
    targets: Instants,
    of_values: usize,
    streams: Vec<StreamArguments<'_>>,
) -> PyResult<()> {
    let spec = spec_of_arguments(types.0, episodes, targets, &streams)?;
    let batch = Batch::new(&spec, times_of(types.1)?, targets, &streams);
    batch.expect_aligned(&[])?;
    if let Some(fault) = spec.gradient_fault() {
        return Err(wrong(fault));
    }
    if place.0 >= 0 {
        return gpu::gradient(py, place, &batch, of_values);
    }
    py.detach(|| {
        // SAFETY: as in `fuse`.
        let converted = unsafe { batch.nanos()? };
        // SAFETY: likewise. The gradients are written, and nothing reads rows.
        let (input, of_values, mut of_rows) = unsafe {
            let mut input = batch.input(&converted);
            let sizes: Vec<usize> = input.rows.iter().map(|rows| rows.len()).collect();
            input.rows.fill(&[]);
            let of_rows = batch.rows.iter().zip(sizes);
            let of_rows: Vec<_> = of_rows.map(|(at, len)| values_mut::<u8>(*at, len)).collect();
            (input, values::<u8>(of_values, spec.targets() * spec.row_bytes()), of_rows)
        };
        if let Some(mismatch) = spec.mismatch_of_instants(&input) {
            return Err(mismatch);
        }
        for (at, of_rows) in of_rows.iter_mut().enumerate() {
            gradients::of_rows(&spec, &input, at, of_values, of_rows, threads(place));
        }
        Ok(())
    })
    .map_err(wrong)
}

/// Threads of an operation on the host.
pub(super) fn threads(place: Place) -> usize {
    match place.1 {
        0 => parallel::cores(),
        threads => threads as usize,
    }
}
