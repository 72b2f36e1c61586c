//! The half of [`News`] that rcl calls.

use std::ffi::c_void;
use std::sync::Arc;

use r2r_rcl::{RCL_RET_OK, rcl_ret_t};

use super::error::ignore;
use super::wake::News;

impl News {
    /// Ends with the entity, whose end has returned `ret`. If the entity has not ended, the middleware may still use the
    /// address, so the memory stays.
    pub(super) fn end(news: Option<Arc<Self>>, ret: rcl_ret_t) {
        if ret != RCL_RET_OK as rcl_ret_t {
            std::mem::forget(news);
        }
        ignore(ret);
    }

    /// The callback for rcl. It runs on a thread of the middleware, so it waits for nothing and cannot panic. rcl's number of
    /// what has come is no guarantee: a full queue replaces.
    pub(super) unsafe extern "C" fn callback(news: *const c_void, _count: usize) {
        // SAFETY: rcl has got the address of a `News` that is alive.
        let news = unsafe { &*news.cast::<News>() };
        news.tell();
    }
}
