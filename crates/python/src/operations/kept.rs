//! Objects that calls have made, kept for calls like them.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key. If there are too many, the one goes that was not used for longest.
pub(super) struct Kept<K, V> {
    all: HashMap<K, (u64, V)>,
    uses: u64,
    most: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Kept<K, V> {
    /// Keeps at most `most` values.
    pub(super) fn new(most: usize) -> Self {
        Kept { all: HashMap::new(), uses: 0, most }
    }

    /// The value of a key, if there is one.
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        self.uses += 1;
        let (used, value) = self.all.get_mut(key)?;
        *used = self.uses;
        Some(value.clone())
    }

    /// Keeps a value.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.all.len() >= self.most
            && let Some(oldest) = self.all.iter().min_by_key(|(_, (used, _))| *used)
        {
            let oldest = oldest.0.clone();
            self.all.remove(&oldest);
        }
        self.all.insert(key, (self.uses, value));
    }
}
