//! Differences that somebody accepts: the contract has what may be served in place of what the policy was trained with.

use serde_json::{Value, json};

use super::{ACCEPTED, Contract, ContractError, DifferenceKind, FORMAT, FORMAT_KEY, wrong};

impl Contract {
    /// Value that may be served for a key in place of that of the training.
    pub(super) fn accepted(&self, key: &str) -> Option<&Value> {
        self.0.get(ACCEPTED)?.get(key)
    }

    /// The keys of all differences that are accepted.
    pub(super) fn accepted_keys(&self) -> impl Iterator<Item = &str> {
        let accepted = self.0.get(ACCEPTED).and_then(Value::as_object);
        accepted.into_iter().flat_map(|all| all.keys().map(String::as_str))
    }

    /// This contract, which also accepts the values of `served` for these keys. Any other value is still refused.
    ///
    /// # Errors
    /// [`ContractError::Wrong`] if a key names no difference that is refused, or one that cannot be accepted.
    pub fn accepting(&self, served: &Contract, keys: &[String]) -> Result<Self, ContractError> {
        let found = self.differences(served);
        let refused = || found.iter().filter(|of| of.kind == DifferenceKind::Values);
        let mut accepted =
            self.0.get(ACCEPTED).and_then(Value::as_object).cloned().unwrap_or_default();
        for key in keys {
            let known = found.iter().find(|of| of.key == *key);
            match known.map(|of| (of.kind, &of.served)) {
                Some((DifferenceKind::Accepted, _)) => {}
                Some((DifferenceKind::Values, Some(served))) => {
                    accepted.insert(key.clone(), served.clone());
                }
                Some((DifferenceKind::Values, None)) => {
                    let found = format!("{key}, which cannot be accepted");
                    return Err(wrong("accept", "a difference in a value", found));
                }
                _ => {
                    let names: Vec<_> = refused().map(|of| of.key.as_str()).collect();
                    let expected = match names.as_slice() {
                        [] => "nothing, as nothing is refused".to_owned(),
                        names => format!("one of the differences {}", names.join(", ")),
                    };
                    return Err(wrong("accept", expected, key.clone()));
                }
            }
        }
        let mut all = self.0.clone();
        if !accepted.is_empty() {
            all.insert(ACCEPTED.into(), json!(accepted));
            all.insert(FORMAT_KEY.into(), json!(FORMAT));
        }
        Ok(Self::of_map(all))
    }
}
