//! rcl's node, which its entities keep alive.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard};

use r2r_rcl::*;

use super::context::ContextInner;
use super::error::{ignore, text};
use super::raw::{Raw, lock};

/// State that the handles of a node and of its entities share. The node ends with the last of them.
pub(super) struct NodeInner {
    pub(super) raw: Raw<rcl_node_t>,
    /// Held while an entity begins or ends and while names or the graph are read, except for counts of clients. It
    /// guards no Rust data.
    pub(super) changing: Mutex<()>,
    pub(super) context: Arc<ContextInner>,
}

// SAFETY: every call that changes the node holds `changing`; the others only read data that does
// not change after the start, or that the middleware guards.
unsafe impl Send for NodeInner {}
// SAFETY: as above.
unsafe impl Sync for NodeInner {}

impl NodeInner {
    pub(super) fn get(&self) -> *mut rcl_node_t {
        self.raw.get()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    pub(super) fn name_by(
        &self,
        getter: unsafe extern "C" fn(*const rcl_node_t) -> *const c_char,
    ) -> String {
        // SAFETY: the node is initialised; the getter's text lives as long as the node.
        unsafe { text(getter(self.get())) }
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        // SAFETY: the node is initialised. Its entities own it, so each of them has ended.
        ignore(unsafe { rcl_node_fini(self.raw.get()) });
    }
}
