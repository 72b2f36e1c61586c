//! The numbers of a normalisation, in a file of safetensors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::CheckpointError;

/// The longest header that is read \[bytes\]; that of statistics has a few kB.
const MOST: u64 = 1 << 20;

/// Numbers by the name of an input and of a statistic: `observation.state.mean`.
#[derive(Clone, Debug, Default)]
pub struct Statistics(BTreeMap<String, Vec<f64>>);

impl Statistics {
    /// Reads a file of safetensors: the length of a header, the header as JSON, and the bytes of the tensors. Tensors
    /// of other types than F32 and F64 are left out.
    ///
    /// # Errors
    /// [`CheckpointError`]: the file cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let bytes =
            fs::read(path).map_err(|source| CheckpointError::Read { path: path.into(), source })?;
        let wrong = |found: &str| CheckpointError::Wrong {
            path: path.into(),
            expected: "a file of safetensors",
            found: found.to_owned(),
        };
        let (length, rest) = bytes.split_first_chunk().ok_or_else(|| wrong("a shorter file"))?;
        let length = u64::from_le_bytes(*length);
        let header = usize::try_from(length).ok().filter(|_| length <= MOST);
        let parts = header.and_then(|header| rest.split_at_checked(header));
        let (header, data) = parts.ok_or_else(|| wrong("a header that is longer"))?;
        let header: BTreeMap<String, Value> =
            serde_json::from_slice(header).map_err(|error| wrong(&error.to_string()))?;
        let mut all = BTreeMap::new();
        for (name, about) in header {
            let offset = |at: usize| about["data_offsets"][at].as_u64().map(|end| end as usize);
            let (Some(begin), Some(end)) = (offset(0), offset(1)) else { continue };
            let part = data.get(begin..end).ok_or_else(|| wrong("a tensor beyond its end"))?;
            let numbers = match about["dtype"].as_str() {
                Some("F32") => {
                    part.as_chunks().0.iter().map(|it| f32::from_le_bytes(*it).into()).collect()
                }
                Some("F64") => {
                    part.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it)).collect()
                }
                _ => continue,
            };
            all.insert(name, numbers);
        }
        Ok(Statistics(all))
    }

    /// The numbers of this name.
    pub fn get(&self, name: &str) -> Option<&[f64]> {
        self.0.get(name).map(Vec::as_slice)
    }
}
