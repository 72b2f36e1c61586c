//! Events of a subscription: what it reports about its connections.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use r2r_rcl::*;

use super::Result;
use super::error::{check, forget, ignore};
use super::raw::Raw;

/// An event of a subscription, such as `Event<MessagesLost>`. The caller may take one that is not
/// ready, and gets the same totals again.
pub struct Event<S> {
    raw: Raw<rcl_event_t>,
    status: PhantomData<fn() -> S>,
}

// SAFETY: rcl ties an event to no thread, and `Event` is not `Sync`.
unsafe impl<S> Send for Event<S> {}

/// The content of an event.
pub trait EventStatus: Sized {
    /// rcl's struct.
    #[doc(hidden)]
    type Raw;
    /// rcl's name of the event.
    #[doc(hidden)]
    const KIND: rcl_subscription_event_type_t;
    /// Reads rcl's struct.
    #[doc(hidden)]
    fn read(raw: &Self::Raw) -> Self;
}

/// Messages that were lost between their publisher and the subscription's queue.
///
/// Measured with Fast DDS 2.14; `crates/rcl/tests` asserts it:
///
/// - With best effort, it counts exactly the messages that shared memory or the network dropped.
///   With reliable delivery, it counts exactly the messages that the publisher's own history
///   overwrote before their delivery.
/// - It does not count messages that the subscription's own full queue overwrote, whether delivery
///   is best effort or reliable.
/// - The gaps in [`publication_sequence`](super::MessageInfo::publication_sequence) of one
///   publisher count both kinds exactly, when the next message has been taken. So the gaps minus
///   the lost messages are the overwritten messages.
/// - Neither counts messages that were published before the subscription found the publisher.
/// - Losses before the first message and after the last one leave no gap. The event counts them,
///   but not always all of the large messages, which travel in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagesLost {
    /// Since the subscription began.
    pub total: u64,
}

impl EventStatus for MessagesLost {
    type Raw = rmw_message_lost_status_t;
    const KIND: rcl_subscription_event_type_t =
        rcl_subscription_event_type_t::RCL_SUBSCRIPTION_MESSAGE_LOST;

    fn read(raw: &Self::Raw) -> Self {
        MessagesLost { total: raw.total_count as u64 }
    }
}

/// Publishers whose quality of service does not fit that of the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompatibleQos {
    /// How many have been found.
    pub total: u64,
}

/// `rmw_qos_incompatible_event_status_t` with the policy as a number, because the bindings' enum
/// cannot hold an unknown policy.
#[repr(C)]
pub struct RawIncompatibleQos {
    total: i32,
    _change: i32,
    _policy: u32,
}

const _: () = assert!(
    size_of::<RawIncompatibleQos>() == size_of::<rmw_qos_incompatible_event_status_t>()
        && align_of::<RawIncompatibleQos>() == align_of::<rmw_qos_incompatible_event_status_t>()
);

impl EventStatus for IncompatibleQos {
    type Raw = RawIncompatibleQos;
    const KIND: rcl_subscription_event_type_t =
        rcl_subscription_event_type_t::RCL_SUBSCRIPTION_REQUESTED_INCOMPATIBLE_QOS;

    fn read(raw: &Self::Raw) -> Self {
        IncompatibleQos { total: raw.total.max(0) as u64 }
    }
}

impl<S: EventStatus> Event<S> {
    /// Creates the event; `None` if the middleware does not support it. The subscription must be
    /// initialised and outlive the event; its handle ensures both.
    pub(super) fn new(subscription: *const rcl_subscription_t) -> Result<Option<Self>> {
        // SAFETY: see above; the event is zero-initialised.
        let (raw, ret) = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_event());
            let ret = rcl_subscription_event_init(raw.get(), subscription, S::KIND);
            (raw, ret)
        };
        if ret == RCL_RET_UNSUPPORTED as rcl_ret_t {
            forget();
            return Ok(None);
        }
        check(ret, || "watch a subscription".to_owned())?;
        Ok(Some(Event { raw, status: PhantomData }))
    }

    /// Takes the current content of the event.
    pub fn take(&self) -> Result<Option<S>> {
        let mut status = MaybeUninit::<S::Raw>::zeroed();
        // SAFETY: the event is initialised and of this kind, whose struct rcl fills.
        let ret = unsafe { rcl_take_event(self.raw.get(), status.as_mut_ptr().cast()) };
        if ret == RCL_RET_EVENT_TAKE_FAILED as rcl_ret_t {
            forget();
            return Ok(None);
        }
        check(ret, || "take an event".to_owned())?;
        // SAFETY: rcl has filled it; every field is a number, for which zeros are valid as well.
        Ok(Some(S::read(unsafe { status.assume_init_ref() })))
    }
}

impl<S> Drop for Event<S> {
    fn drop(&mut self) {
        // SAFETY: the event is initialised, and its subscription has not ended.
        ignore(unsafe { rcl_event_fini(self.raw.get()) });
    }
}
