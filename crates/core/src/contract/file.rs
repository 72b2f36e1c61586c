//! Contracts in files: beside a checkpoint, in a store, in a dataset.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{Contract, ContractError, wrong};

/// How many files were begun: each has a name of its own until it is complete.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// The name of the file beside a checkpoint.
pub const FILE: &str = "robocache.json";
/// The digest of the contract in the file of a dataset, which has more than a contract.
const DIGEST: &str = "contract_digest";
/// Places of the contract below a folder: the file, and the pointer (RFC 6901) to what holds `contract`. The second is
/// that of a LeRobot dataset, the third that of a store of Zarr, the last that of a saved cache of episodes.
const PLACES: [(&str, &str); 4] = [
    (FILE, ""),
    ("meta/robocache.json", ""),
    ("zarr.json", "/attributes/robocache"),
    ("index.json", ""),
];

impl Contract {
    /// The text of the file: the contract with its digest, and the version that made it.
    pub fn to_file(&self) -> String {
        let all = json!({
            "contract": self.value(),
            "digest": self.digest(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        format!("{all:#}\n")
    }

    /// Writes `robocache.json` into a folder. A file of this name is replaced.
    ///
    /// # Errors
    /// [`ContractError::Read`] if it cannot be written.
    pub fn save(&self, folder: &Path) -> Result<(), ContractError> {
        replace(&folder.join(FILE), &self.to_file())
    }

    /// Reads the contract in the text of a `robocache.json`. Errors call it `place`.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if it has none, or was changed.
    pub fn of_file(text: &str, place: &str) -> Result<Self, ContractError> {
        let value = json_in(text, place)?;
        let none = || wrong(place, format!("the contract of a {FILE}"), "none".to_owned());
        contract_in(&value, place)?.ok_or_else(none)
    }

    /// Accepts what `served` has for these keys, in `robocache.json` or a folder that has it. It is written beside the
    /// checkpoint, so each reader accepts the same. The other keys of the file stay.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if it is no such file, because stores, datasets and caches keep the contract that they
    /// were made by; those of [`Contract::load`] and [`Contract::accepting`]; or it cannot be written.
    pub fn accept(path: &Path, served: &Contract, keys: &[String]) -> Result<Self, ContractError> {
        let file = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let all = if file.ends_with(FILE) { json_of(&file)? } else { None };
        let Some(mut all) = all else {
            let expected = "the folder of a checkpoint: contract.save(...) first";
            let found = format!("no {FILE}");
            return Err(wrong(&path.display().to_string(), expected, found));
        };
        let made = Self::load(&file)?.accepting(served, keys)?;
        if let Some(map) = all.as_object_mut() {
            let digest = if map.contains_key(DIGEST) { DIGEST } else { "digest" };
            map.insert("contract".into(), made.value());
            map.insert(digest.into(), json!(made.digest()));
        }
        replace(&file, &format!("{all:#}\n")).map(|()| made)
    }

    /// Reads the contract of a folder: that of a checkpoint, a store, a dataset or a saved cache; or that of a file.
    ///
    /// # Errors
    /// [`ContractError`]: there is none, it cannot be read, or it was changed.
    pub fn load(path: &Path) -> Result<Self, ContractError> {
        if path.is_file() {
            return read(path, "")?.ok_or_else(|| ContractError::Missing { path: path.into() });
        }
        for (file, pointer) in PLACES {
            if let Some(contract) = read(&path.join(file), pointer)? {
                return Ok(contract);
            }
        }
        Err(ContractError::Missing { path: path.into() })
    }
}

/// Replaces a file, or makes it. It is complete at all times.
fn replace(path: &Path, text: &str) -> Result<(), ContractError> {
    // Under another name first: a file of this name is complete.
    let number = BEGUN.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!("{name}.{}-{number}.partial", process::id()));
    let written = write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&part);
        ContractError::Read { path: path.into(), source }
    })
}

/// Writes a file, and waits until the disk has it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The JSON of a file; `None` if there is no such file.
fn json_of(path: &Path) -> Result<Option<Value>, ContractError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ContractError::Read { path: path.into(), source }),
    };
    json_in(&text, &path.display().to_string()).map(Some)
}

fn json_in(text: &str, place: &str) -> Result<Value, ContractError> {
    serde_json::from_str(text).map_err(|error| wrong(place, "JSON", error.to_string()))
}

/// The contract of a file; `None` if there is no such file, or it has no contract.
fn read(path: &Path, pointer: &str) -> Result<Option<Contract>, ContractError> {
    let Some(value) = json_of(path)? else { return Ok(None) };
    let place = path.display().to_string();
    value.pointer(pointer).map_or(Ok(None), |about| contract_in(about, &place))
}

/// The contract that is noted with its digest; `None` if there is none.
fn contract_in(about: &Value, place: &str) -> Result<Option<Contract>, ContractError> {
    let Some(contract) = about.get("contract").filter(|contract| !contract.is_null()) else {
        return Ok(None);
    };
    let contract = Contract::from_value(contract.clone(), place)?;
    let digest = about.get("digest").or_else(|| about.get(DIGEST));
    match digest.and_then(Value::as_str) {
        Some(digest) if digest != contract.digest() => {
            let expected = format!("the digest {} of its contract", contract.digest());
            Err(wrong(place, expected, format!("{digest}: the file was changed")))
        }
        _ => Ok(Some(contract)),
    }
}
