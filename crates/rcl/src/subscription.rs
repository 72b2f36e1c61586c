//! A subscription to a topic of any type.

use std::ops::DerefMut;
use std::sync::Arc;

use r2r_rcl::*;

use super::error::{c_string, check, forget, text};
use super::event::{Event, EventStatus, IncompatibleQos, MessagesLost};
use super::node_inner::NodeInner;
use super::raw::Raw;
use super::type_support::TypeSupport;
use super::wake::{News, Wake};
use super::{MessageInfo, Qos, Result, SerializedMessage};

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

/// The events of a subscription; `None` if the middleware does not support one. They end no wait: they count, so the
/// caller takes them now and then.
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
    /// Takes all events.
    pub fn take(&self) -> Result<EventStatuses> {
        fn take<S: EventStatus>(event: Option<&Event<S>>) -> Result<Option<S>> {
            event.map_or(Ok(None), Event::take)
        }
        Ok(EventStatuses {
            lost: take(self.lost.as_ref())?,
            incompatible: take(self.incompatible.as_ref())?,
        })
    }
}

struct Inner {
    raw: Raw<rcl_subscription_t>,
    /// `None` if the middleware tells nothing: then a message may wait at any time.
    news: Option<Arc<News>>,
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
        qos: Qos,
        flow: Flow,
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
            let name = c_topic.as_ptr();
            let types = types.get();
            let ret = rcl_subscription_init(raw.get(), node.get(), types, name, &options);
            check(ret, || format!("subscribe to {topic}"))?;
            raw
        };
        drop(changing);
        let inner = Inner { raw, news: None, node: Arc::clone(node), _types: types };
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

    /// Ends a wait of `wake` from now on when a message comes, and if one waits already.
    ///
    /// # Errors
    /// The middleware has no callbacks for messages.
    pub fn tell(&mut self, wake: &Arc<Wake>) -> Result<()> {
        let news = News::new(wake);
        // SAFETY: the subscription is initialised. `Inner` keeps the news until the subscription has ended, or until the
        // middleware has the next one.
        let ret = unsafe {
            let raw = self.inner.raw.get();
            let address = Arc::as_ptr(&news).cast();
            rcl_subscription_set_on_new_message_callback(raw, Some(News::callback), address)
        };
        check(ret, || format!("be told of new messages of {}", self.topic()))?;
        // If a message comes while the callback is set, Fast DDS does not call it.
        news.tell();
        drop(self.inner.news.replace(news));
        Ok(())
    }

    /// True if a message may wait: one came since the last take that found none. A take of what cannot wait takes no
    /// time.
    pub fn may_have(&self) -> bool {
        self.inner.news.as_ref().is_none_or(|news| news.may_wait())
    }

    /// Ends the events: from now on none is taken.
    pub fn end_events(&mut self) {
        self.events = Events { lost: None, incompatible: None };
    }

    /// Takes the oldest waiting message into `message`. If none waits, returns `None` and empties
    /// `message`. The middleware copies the message into the buffer; there is no other copy.
    pub fn take<P: DerefMut<Target = [u8]>>(
        &self,
        message: &mut SerializedMessage<P>,
    ) -> Result<Option<MessageInfo>> {
        // SAFETY: the function returns a plain value.
        let mut info = unsafe { rmw_get_zero_initialized_message_info() };
        let taken = message.fill(|message| {
            let mut take = || {
                // SAFETY: the subscription is initialised and one thread uses it; rcl fills the message
                // and the info, and keeps neither.
                let ret = unsafe {
                    let raw = self.inner.raw.get();
                    let allocation = std::ptr::null_mut();
                    rcl_take_serialized_message(raw, message, &mut info, allocation)
                };
                if ret == RCL_RET_SUBSCRIPTION_TAKE_FAILED as rcl_ret_t {
                    forget();
                    return None;
                }
                // Another one may wait also after a failure.
                Some(check(ret, || format!("take a message of {}", self.topic())))
            };
            let taken = match &self.inner.news {
                Some(news) => news.take(take),
                None => take(),
            };
            taken.transpose().map(|taken| taken.is_some())
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
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _changing = self.node.lock();
        // SAFETY: the subscription belongs to this node and is initialised; its events have ended.
        let ret = unsafe { rcl_subscription_fini(self.raw.get(), self.node.get()) };
        News::end(self.news.take(), ret);
    }
}
