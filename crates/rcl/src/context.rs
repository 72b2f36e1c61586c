//! The context: ROS in this process.

use std::ffi::{OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex};

use r2r_rcl::*;

use super::Result;
use super::error::{c_string, check, ignore};
use super::raw::{Raw, lock};

/// Number of live contexts. The process has one logging of rcl's: the first context configures it
/// and the last one ends it. The lock is held while a context starts or ends.
static CONTEXTS: Mutex<usize> = Mutex::new(0);

/// ROS in this process: the connection to the middleware. It ends with its last user.
#[derive(Clone)]
pub struct Context {
    pub(super) inner: Arc<ContextInner>,
}

pub(super) struct ContextInner {
    raw: Raw<rcl_context_t>,
}

// SAFETY: after the start rcl only reads the context, until the last owner ends it.
unsafe impl Send for ContextInner {}
// SAFETY: as above.
unsafe impl Sync for ContextInner {}

impl Context {
    /// Starts ROS with the process's arguments, in the domain of `ROS_DOMAIN_ID`.
    pub fn new() -> Result<Self> {
        Context::from_args(std::env::args_os(), None)
    }

    /// Starts ROS with these arguments; the first one is the program's name. `None` takes the
    /// domain of `ROS_DOMAIN_ID`.
    ///
    /// # Errors
    /// rcl cannot read the ROS arguments, or ROS does not start.
    pub fn from_args(
        args: impl IntoIterator<Item = OsString>,
        domain: Option<usize>,
    ) -> Result<Self> {
        let args = args.into_iter().map(|arg| c_string("the argument", arg.into_vec()));
        let args = args.collect::<Result<Vec<_>>>()?;
        let argv: Vec<*const c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
        // No code panics while it holds the lock, so the count is right.
        let mut contexts = lock(&CONTEXTS);
        // SAFETY: the functions return plain values.
        let (raw, allocator) = unsafe {
            (Raw::new(rcl_get_zero_initialized_context()), rcutils_get_default_allocator())
        };
        init(&raw, &argv, domain, allocator)?;
        // From here on the drop of `inner` ends the context; it takes the lock again.
        *contexts += 1;
        let first = *contexts == 1;
        let inner = ContextInner { raw };
        let configured = if first {
            // SAFETY: `init` has filled the arguments; the lock keeps other contexts away.
            let ret =
                unsafe { rcl_logging_configure(&(*inner.raw.get()).global_arguments, &allocator) };
            check(ret, || "set up rcl's log".to_owned())
        } else {
            Ok(())
        };
        drop(contexts);
        configured.map(|()| Context { inner: Arc::new(inner) })
    }
}

fn init(
    raw: &Raw<rcl_context_t>,
    argv: &[*const c_char],
    domain: Option<usize>,
    allocator: rcl_allocator_t,
) -> Result<()> {
    // SAFETY: the options are local and are ended below; `raw` is zero-initialised; the caller
    // keeps the arguments during the call, and rcl copies them.
    unsafe {
        let mut options = rcl_get_zero_initialized_init_options();
        check(rcl_init_options_init(&mut options, allocator), || "start ROS".to_owned())?;
        let mut ret = match domain {
            Some(domain) => rcl_init_options_set_domain_id(&mut options, domain),
            None => RCL_RET_OK as rcl_ret_t,
        };
        if ret == RCL_RET_OK as rcl_ret_t {
            ret = rcl_init(argv.len() as c_int, argv.as_ptr(), &options, raw.get());
        }
        let outcome = check(ret, || "start ROS".to_owned());
        ignore(rcl_init_options_fini(&mut options));
        outcome
    }
}

impl ContextInner {
    pub(super) fn get(&self) -> *mut rcl_context_t {
        self.raw.get()
    }

    /// The ROS arguments of the process.
    pub(super) fn arguments(&self) -> *const rcl_arguments_t {
        // SAFETY: the context is initialised; only the field's address is taken.
        unsafe { &raw const (*self.raw.get()).global_arguments }
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        let mut contexts = lock(&CONTEXTS);
        *contexts -= 1;
        // SAFETY: the context is initialised and this is its last owner, so no node is left.
        unsafe {
            ignore(rcl_shutdown(self.raw.get()));
            if *contexts == 0 {
                ignore(rcl_logging_fini());
            }
            ignore(rcl_context_fini(self.raw.get()));
        }
    }
}
