//! A request of a replay, which Python's values fill.
//!
//! A value is what Python has: a number, a path, a bool, a list. A text stands for a value as on the command line.
//! None stands for the default.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use robocache_data::replay::batch;
use robocache_data::replay::{
    Busy, Episode, EpisodesRequest, ReplayOptions, ReplayRequest, RequestError,
};

use crate::errors::{failed, wrong};
use crate::interrupt::interruptible;
use crate::recordings;

/// A replay of bags into files.
#[pyclass(frozen, name = "ReplayRequest", module = "robocache._native")]
pub(crate) struct PyReplayRequest(ReplayRequest);

#[pymethods]
impl PyReplayRequest {
    /// Checks the values. No file is read.
    #[new]
    #[pyo3(signature = (bags, config, out, **options))]
    fn new(
        bags: Vec<PathBuf>,
        config: PathBuf,
        out: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut request = ReplayRequest { config, out, ..ReplayRequest::default() };
        request.episodes.bags = bags;
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            if !value.is_none() && !fill_episodes(&mut request.episodes, &name, &value)? {
                fill(&mut request, &name, &value)?;
            }
        }
        request.check().map_err(raised)?;
        Ok(PyReplayRequest(request))
    }

    /// Identities of the results: per episode its name, and a text of what its result would be made of. Nothing is
    /// replayed.
    fn made_of(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let request = self.0.clone();
        let work = move || {
            let (episodes, options) = request.asked()?;
            Ok(batch::made_of_all(&episodes, &options)?)
        };
        interruptible(py, work)?.map_err(|error: RequestError| wrong(error))
    }
}

impl PyReplayRequest {
    /// The episodes, and how they are replayed. `recordings` stand for the bags.
    pub(crate) fn asked(
        &self,
        py: Python<'_>,
        recordings: Option<&[Bound<'_, PyAny>]>,
    ) -> PyResult<(Vec<Episode>, ReplayOptions)> {
        let asked = match recordings {
            None => {
                let request = self.0.clone();
                interruptible(py, move || request.asked())?
            }
            Some(recordings) => {
                let given = recordings::episodes(recordings)?;
                py.detach(|| self.0.asked_of(given))
            }
        };
        asked.map_err(raised)
    }
}

/// The request of a replay into memory.
pub(crate) fn episodes_request(
    bags: Vec<PathBuf>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<EpisodesRequest> {
    let mut request = EpisodesRequest { bags, ..EpisodesRequest::default() };
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        if !value.is_none() && !fill_episodes(&mut request, &name, &value)? {
            return Err(unknown(&name));
        }
    }
    request.check().map_err(raised)?;
    Ok(request)
}

/// Puts a value into its field. Returns false if there is no field of this name.
fn fill_episodes(
    request: &mut EpisodesRequest,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    match name {
        "rate_hz" => request.rate_hz = Some(value_of(name, value)?),
        "start" => request.start = Some(value_of(name, value)?),
        "end" => request.end = Some(value_of(name, value)?),
        "episodes" => request.list = Some(value.extract()?),
        "episodes_by" => request.by_topic = Some(value_of(name, value)?),
        "remap" => request.remaps = values_of(name, texts(value)?)?,
        "time" => request.time = value_of(name, value)?,
        "backend" => request.backend = value_of(name, value)?,
        "device" => request.gpus = values_of(name, listed(value)?)?,
        "jobs" => request.jobs = Some(value_of(name, value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Puts a value into its field.
fn fill(request: &mut ReplayRequest, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match name {
        "format" => request.format = value_of(name, value)?,
        "bf16" => request.bf16 = Some(value_of(name, value)?),
        "images" => request.images = value_of(name, value)?,
        "rows" => request.rows = listed(value)?,
        "share" => request.share = Some(value_of(name, value)?),
        "parts_only" => request.parts_only = value.is_truthy()?,
        "replace" => request.replace = value.is_truthy()?,
        "take" => request.take = value.extract()?,
        "no_digest" => request.no_digest = value.is_truthy()?,
        "kept_in" => request.kept_in = Some(value.extract()?),
        "waits" if value.is_truthy()? => request.busy = Busy::Waits,
        "waits" => {}
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn unknown(name: &str) -> PyErr {
    PyTypeError::new_err(format!("unexpected option of robocache replay: '{name}'"))
}

/// The value of an option.
fn value_of<T: FromStr<Err: Display>>(name: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    parsed(name, value.str()?.to_str()?)
}

/// The values of an option that has several.
fn values_of<T: FromStr<Err: Display>>(name: &str, texts: Vec<String>) -> PyResult<Vec<T>> {
    texts.iter().map(|text| parsed(name, text)).collect()
}

/// A value that a text stands for. The error names the option as the command line does.
fn parsed<T: FromStr<Err: Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| {
        let option = name.replace('_', "-");
        let why = error.to_string();
        match why.contains("found") {
            true => wrong(format!("--{option}: {why}")),
            false => wrong(format!("--{option}: {why}: '{text}'")),
        }
    })
}

/// The texts of a list, or of a single value.
fn texts(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let text = |value: Bound<'_, PyAny>| Ok(value.str()?.to_str()?.to_owned());
    match value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        true => value.try_iter()?.map(|each| text(each?)).collect(),
        false => Ok(vec![text(value.clone())?]),
    }
}

/// Texts of an argument, each divided at its commas.
fn listed(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Ok(texts(value)?.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect())
}

/// The exception of an error.
pub(crate) fn raised(error: RequestError) -> PyErr {
    match error {
        RequestError::Wrong(why) => wrong(why),
        RequestError::Failed(error) => failed(error),
    }
}
