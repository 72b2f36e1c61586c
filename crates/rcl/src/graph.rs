//! Changes of the graph.

use std::sync::Arc;

use r2r_rcl::*;

use super::Result;
use super::error::{check, forget, ignore};
use super::node_inner::NodeInner;
use super::raw::Raw;

/// Tells whether an endpoint of any topic has come or gone. The middleware has no callback for that, only something to
/// wait for. So this waits for no time.
pub struct GraphChanges {
    /// A wait set with room for one guard condition.
    wait_set: Raw<rcl_wait_set_t>,
    node: Arc<NodeInner>,
}

// SAFETY: rcl ties a wait set to no thread, and waiting takes `&mut self`.
unsafe impl Send for GraphChanges {}

impl GraphChanges {
    pub(super) fn new(node: &Arc<NodeInner>) -> Result<Self> {
        // SAFETY: the context is initialised. The node keeps it alive, and the wait set keeps the node alive.
        let wait_set = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_wait_set());
            let context = node.context.get();
            let allocator = rcutils_get_default_allocator();
            let ret = rcl_wait_set_init(raw.get(), 0, 1, 0, 0, 0, 0, context, allocator);
            check(ret, || "watch the graph".to_owned())?;
            raw
        };
        Ok(GraphChanges { wait_set, node: Arc::clone(node) })
    }

    /// True if the graph changed since the last call. Of several watches of one context, one learns of it.
    pub fn any(&mut self) -> Result<bool> {
        let set = self.wait_set.get();
        // SAFETY: the set and the node are initialised. The guard condition lives as long as the node.
        let ret = unsafe {
            let guard = rcl_node_get_graph_guard_condition(self.node.get());
            check(rcl_wait_set_clear(set), || "watch the graph".to_owned())?;
            let ret = rcl_wait_set_add_guard_condition(set, guard, std::ptr::null_mut());
            check(ret, || "watch the graph".to_owned())?;
            rcl_wait(set, 0)
        };
        if ret == RCL_RET_TIMEOUT as rcl_ret_t {
            forget();
            return Ok(false);
        }
        check(ret, || "watch the graph".to_owned()).map(|()| true)
    }
}

impl Drop for GraphChanges {
    fn drop(&mut self) {
        // SAFETY: the set is initialised; rcl does not read the guard condition that was in it.
        ignore(unsafe { rcl_wait_set_fini(self.wait_set.get()) });
    }
}
