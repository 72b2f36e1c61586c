//! Which process an object is of.

use pyo3::PyResult;

use crate::errors::failed;

/// The process that made an object. A forked process has its memory and none of its threads and locks.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    /// This one.
    pub(crate) fn this() -> Self {
        Process(std::process::id())
    }

    /// True if the caller is still this process.
    pub(crate) fn is_this(self) -> bool {
        self.0 == std::process::id()
    }

    /// Checks that this is still the process.
    pub(crate) fn check(self, what: &str) -> PyResult<()> {
        match self.is_this() {
            true => Ok(()),
            false => Err(failed(format!(
                "expected {what} of this process, found one of the process that forked it: make it after the fork, \
                 or start workers by 'spawn'"
            ))),
        }
    }
}
