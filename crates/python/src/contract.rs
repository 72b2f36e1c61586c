//! Contracts, for `robocache.contract`.

use std::path::PathBuf;

use pyo3::prelude::*;
use robocache_core::contract::{Contract, ContractError};

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

/// The JSON of the contract of a configuration.
#[pyfunction]
pub(crate) fn contract_of(text: &str, file: &str) -> PyResult<String> {
    Ok(Contract::of(&parse(text, file)?).to_string())
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
