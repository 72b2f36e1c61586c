//! Ends the wait of another thread.

use std::sync::Arc;

use r2r_rcl::*;

use super::context::ContextInner;
use super::error::{check, ignore};
use super::{Context, Raw, Result, Waitable};

/// A wait that includes it ends when any thread triggers it. One wait ends for each trigger, also if the trigger comes
/// first.
pub struct Guard {
    raw: Raw<rcl_guard_condition_t>,
    _context: Arc<ContextInner>,
}

// SAFETY: rcl ties a guard condition to no thread.
unsafe impl Send for Guard {}
// SAFETY: any thread may trigger a guard condition, also while another one waits for it.
unsafe impl Sync for Guard {}

impl Guard {
    /// A guard for waits of this context.
    pub fn new(context: &Context) -> Result<Self> {
        // SAFETY: the context is initialised and outlives the guard condition.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_guard_condition());
            let options = rcl_guard_condition_get_default_options();
            let ret = rcl_guard_condition_init(raw.get(), context.inner.get(), options);
            check(ret, || "create a guard condition".to_owned())?;
            raw
        };
        Ok(Guard { raw, _context: Arc::clone(&context.inner) })
    }

    /// Ends the wait.
    pub fn trigger(&self) -> Result<()> {
        // SAFETY: the guard condition is initialised.
        let ret = unsafe { rcl_trigger_guard_condition(self.raw.get()) };
        check(ret, || "end a wait".to_owned())
    }
}

impl<'a> From<&'a Guard> for Waitable<'a> {
    fn from(guard: &'a Guard) -> Self {
        Waitable::of_guard(guard.raw.get())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: the guard condition is initialised, and no wait includes it: a wait borrows it.
        ignore(unsafe { rcl_guard_condition_fini(self.raw.get()) });
    }
}
