//! Contracts, for `robocache.contract`.

use std::path::PathBuf;

use pyo3::prelude::*;
use robocache_core::contract::{Contract, ContractError, Reference};

use crate::errors::wrong;
use crate::pipeline::parse;

/// An error of a file is an OSError, or a ValueError if it holds no contract.
fn raised(error: ContractError) -> PyErr {
    match error {
        ContractError::Read { path, source } => {
            let error: PyErr = source.into();
            Python::attach(|py| {
                let _ = error.value(py).setattr("filename", path);
            });
            error
        }
        other => wrong(other),
    }
}

fn read(text: &str) -> PyResult<Contract> {
    Contract::parse(text).map_err(raised)
}

/// The JSON of the contract of a configuration: of a node, which makes its commands, or of a pipeline, which makes none.
#[pyfunction]
pub(crate) fn contract_of(text: &str, file: &str, commands: bool) -> PyResult<String> {
    let config = parse(text, file)?;
    let contract = if commands { Contract::of_node(&config) } else { Contract::of(&config) };
    Ok(contract.to_string())
}

/// The JSON of a contract in its only form, and its digest.
#[pyfunction]
pub(crate) fn contract_read(text: &str) -> PyResult<(String, String)> {
    let contract = read(text)?;
    Ok((contract.to_string(), contract.digest()))
}

/// The JSON of the contract of some streams.
#[pyfunction]
pub(crate) fn contract_only(text: &str, streams: Vec<String>) -> PyResult<String> {
    let contract = read(text)?.only(streams.iter().map(String::as_str));
    Ok(contract.map_err(raised)?.to_string())
}

/// Key, kind and sentence of each thing that `served` serves otherwise than `trained` says.
#[pyfunction]
pub(crate) fn contract_differences(
    trained: &str,
    served: &str,
) -> PyResult<Vec<(String, &'static str, String)>> {
    let found = read(trained)?.differences(&read(served)?);
    Ok(found.into_iter().map(|of| (of.key, of.kind.name(), of.sentence)).collect())
}

/// Accepts differences in the contract of a folder, and returns its JSON.
#[pyfunction]
pub(crate) fn contract_accept(path: PathBuf, served: &str, keys: Vec<String>) -> PyResult<String> {
    Ok(Contract::accept(&path, &read(served)?, &keys).map_err(raised)?.to_string())
}

/// The JSON of the contract in a folder or a file.
#[pyfunction]
pub(crate) fn contract_load(path: PathBuf) -> PyResult<String> {
    Ok(Contract::load(&path).map_err(raised)?.to_string())
}

/// Writes a contract into a folder.
#[pyfunction]
pub(crate) fn contract_save(text: &str, folder: PathBuf) -> PyResult<()> {
    read(text)?.save(&folder).map_err(raised)
}

/// The chunks of one stream of actions in a contract: `robocache.ActionPublisher` and `ActionWriter` send such.
#[pyclass(frozen, module = "robocache._native")]
pub(crate) struct ActionForm {
    joints: Vec<String>,
    rows: usize,
    reference: Option<Reference>,
}

#[pymethods]
impl ActionForm {
    /// Finds the actions of these joints; the only ones of the contract if `joints` is None.
    #[new]
    #[pyo3(signature = (text, joints))]
    fn new(text: &str, joints: Option<Vec<String>>) -> PyResult<Self> {
        let contract = read(text)?;
        let expected = "names: expected the joints of actions in the contract";
        let found = contract.actions_of_joints(joints.as_deref(), None);
        let (joints, actions) = found.map_err(|why| wrong(format!("{expected}: {why}")))?;
        let reference = contract.reference(&actions).map_err(raised)?;
        Ok(ActionForm { joints, rows: actions.offsets_ns.len(), reference })
    }

    #[getter]
    fn joints(&self) -> Vec<String> {
        self.joints.clone()
    }

    #[getter]
    fn rows(&self) -> usize {
        self.rows
    }

    /// The stream whose newest step relative rows are added to, and the shape of its segment.
    #[getter]
    fn reference(&self) -> Option<(&str, [usize; 2])> {
        self.reference.as_ref().map(|of| (of.stream.as_str(), of.shape))
    }

    /// The reference of each joint, by this step; empty if no row is relative.
    fn values(&self, step: Vec<f32>) -> Vec<f32> {
        self.reference.as_ref().map_or_else(Vec::new, |of| of.values(&step))
    }
}
