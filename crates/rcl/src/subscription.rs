//! A subscription to a topic of any type.

use std::sync::Arc;

use r2r_rcl::*;

use super::error::{c_string, check, forget, ignore, text};
use super::event::{Event, EventStatus, IncompatibleQos, MessagesLost};
use super::node_inner::NodeInner;
use super::type_support::TypeSupport;
use super::{MessageInfo, Qos, Raw, Result, SerializedMessage};

/// Who receives the messages of a subscription inside the middleware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The thread that receives for the whole process.
    Shared,
    /// A thread with ports of its own, if the middleware can give them.
    Own,
}

impl Flow {
    fn requirement(self) -> rmw_unique_network_flow_endpoints_requirement_t {
        use rmw_unique_network_flow_endpoints_requirement_e as requirement;
        match self {
            Flow::Shared => requirement::RMW_UNIQUE_NETWORK_FLOW_ENDPOINTS_NOT_REQUIRED,
            Flow::Own => requirement::RMW_UNIQUE_NETWORK_FLOW_ENDPOINTS_OPTIONALLY_REQUIRED,
        }
    }
}

/// A subscription. A drop ends it at once.
pub struct Subscription {
    /// Dropped first: events end before their subscription.
    events: Events,
    inner: Inner,
}

/// The events of a subscription; `None` if the middleware does not support one. A wait for the
/// subscription also ends when an event is ready. Until the caller takes it, every wait ends at
/// once.
pub struct Events {
    /// Messages were lost.
    pub lost: Option<Event<MessagesLost>>,
    /// A publisher's quality of service does not fit that of this subscription.
    pub incompatible: Option<Event<IncompatibleQos>>,
}

/// The content of the events; `None` if the middleware does not support one, or the events have
/// ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventStatuses {
    /// Messages that were lost.
    pub lost: Option<MessagesLost>,
    /// Publishers whose quality of service does not fit.
    pub incompatible: Option<IncompatibleQos>,
}

impl Events {
    /// Takes all events, so that they do not end the next wait.
    pub fn take(&self) -> Result<EventStatuses> {
        fn take<S: EventStatus>(event: Option<&Event<S>>) -> Result<Option<S>> {
            event.map_or(Ok(None), Event::take)
        }
        Ok(EventStatuses {
            lost: take(self.lost.as_ref())?,
            incompatible: take(self.incompatible.as_ref())?,
        })
    }

    /// Pointers to rcl's events; null if an event is not supported.
    pub(super) fn raw(&self) -> [*const rcl_event_t; 2] {
        fn raw<S: EventStatus>(event: Option<&Event<S>>) -> *const rcl_event_t {
            event.map_or(std::ptr::null(), Event::get)
        }
        [raw(self.lost.as_ref()), raw(self.incompatible.as_ref())]
    }
}

struct Inner {
    raw: Raw<rcl_subscription_t>,
    node: Arc<NodeInner>,
    _types: TypeSupport,
}

// SAFETY: rcl ties a subscription to no thread, and `Subscription` is not `Sync`.
unsafe impl Send for Inner {}

impl Subscription {
    pub(super) fn new(
        node: &Arc<NodeInner>,
        topic: &str,
        types: TypeSupport,
        (qos, flow): (Qos, Flow),
    ) -> Result<Self> {
        let c_topic = c_string("the topic", topic)?;
        let changing = node.lock();
        // SAFETY: node and type are initialised and outlive the subscription; rcl copies the rest.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_subscription());
            let mut options = rcl_subscription_get_default_options();
            qos.put_into(&mut options.qos);
            let options_of_rmw = &mut options.rmw_subscription_options;
            options_of_rmw.require_unique_network_flow_endpoints = flow.requirement();
            let (name, types) = (c_topic.as_ptr(), types.get());
            let ret = rcl_subscription_init(raw.get(), node.get(), types, name, &options);
            check(ret, || format!("subscribe to {topic}"))?;
            raw
        };
        drop(changing);
        let inner = Inner { raw, node: Arc::clone(node), _types: types };
        let events = Events {
            lost: Event::new(inner.raw.get())?,
            incompatible: Event::new(inner.raw.get())?,
        };
        Ok(Subscription { events, inner })
    }

    /// The topic's full name.
    pub fn topic(&self) -> String {
        // SAFETY: the subscription is initialised; the text lives as long as it does.
        unsafe { text(rcl_subscription_get_topic_name(self.inner.raw.get())) }
    }

    pub(super) fn node_inner(&self) -> &Arc<NodeInner> {
        &self.inner.node
    }

    /// The events of the subscription.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Ends the events: from now on none is taken, and none ends a wait.
    pub fn end_events(&mut self) {
        self.events = Events { lost: None, incompatible: None };
    }

    /// Takes the oldest waiting message into `message`. If none waits, returns `None` and empties
    /// `message`. The middleware copies the message into the buffer; there is no other copy.
    pub fn take(&self, message: &mut SerializedMessage) -> Result<Option<MessageInfo>> {
        // SAFETY: the function returns a plain value.
        let mut info = unsafe { rmw_get_zero_initialized_message_info() };
        let taken = message.fill(|message| {
            // SAFETY: the subscription is initialised and one thread uses it; rcl fills the message
            // and the info, and keeps neither.
            let ret = unsafe {
                let (raw, allocation) = (self.inner.raw.get(), std::ptr::null_mut());
                rcl_take_serialized_message(raw, message, &mut info, allocation)
            };
            if ret == RCL_RET_SUBSCRIPTION_TAKE_FAILED as rcl_ret_t {
                forget();
                return Ok(false);
            }
            check(ret, || format!("take a message of {}", self.topic())).map(|()| true)
        })?;
        Ok(taken.then(|| MessageInfo::from_raw(&info)))
    }

    /// Counts the publishers that are connected to it.
    pub fn publisher_count(&self) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the subscription is initialised.
        let ret = unsafe { rcl_subscription_get_publisher_count(self.inner.raw.get(), &mut count) };
        check(ret, || format!("count the publishers of {}", self.topic())).map(|()| count)
    }

    pub(super) fn get(&self) -> *const rcl_subscription_t {
        self.inner.raw.get()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _changing = self.node.lock();
        // SAFETY: the subscription belongs to this node and is initialised; its events have ended.
        ignore(unsafe { rcl_subscription_fini(self.raw.get(), self.node.get()) });
    }
}
