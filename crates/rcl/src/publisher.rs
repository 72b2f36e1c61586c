//! Publishers of bytes and of generated messages.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use r2r::WrappedTypesupport;
use r2r_rcl::*;

use super::error::{c_string, check, forget, ignore, text};
use super::node_inner::NodeInner;
use super::raw::Raw;
use super::type_support::TypeSupport;
use super::{Qos, RclError, Result};

/// A publisher of serialized messages.
pub struct Publisher {
    raw: Raw<rcl_publisher_t>,
    node: Arc<NodeInner>,
    _types: TypeSupport,
}

// SAFETY: rcl ties a publisher to no thread.
unsafe impl Send for Publisher {}
// SAFETY: publishing and counting are thread-safe; the node's lock guards the start and the end.
unsafe impl Sync for Publisher {}

impl Publisher {
    pub(super) fn new(
        node: &Arc<NodeInner>,
        topic: &str,
        types: TypeSupport,
        qos: Qos,
    ) -> Result<Self> {
        let c_topic = c_string("the topic", topic)?;
        let _changing = node.lock();
        // SAFETY: node and type are initialised and outlive the publisher; rcl copies the rest.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_publisher());
            let mut options = rcl_publisher_get_default_options();
            qos.put_into(&mut options.qos);
            let name = c_topic.as_ptr();
            let types = types.get();
            let ret = rcl_publisher_init(raw.get(), node.get(), types, name, &options);
            check(ret, || format!("publish {topic}"))?;
            raw
        };
        Ok(Publisher { raw, node: Arc::clone(node), _types: types })
    }

    /// The topic's full name.
    pub fn topic(&self) -> String {
        // SAFETY: the publisher is initialised; the text lives as long as it does.
        unsafe { text(rcl_publisher_get_topic_name(self.raw.get())) }
    }

    /// Publishes the serialized bytes of a message of the publisher's type.
    pub fn publish(&self, bytes: &[u8]) -> Result<()> {
        // SAFETY: rcl only reads the message during the call, and does not resize it.
        let ret = unsafe {
            let message = rcl_serialized_message_t {
                buffer: bytes.as_ptr().cast_mut(),
                buffer_length: bytes.len(),
                buffer_capacity: bytes.len(),
                allocator: rcutils_get_default_allocator(),
            };
            rcl_publish_serialized_message(self.raw.get(), &message, std::ptr::null_mut())
        };
        check(ret, || format!("publish on {}", self.topic()))
    }

    /// Waits until every reliable subscription has received all messages, at most for `timeout`.
    /// Returns whether they have.
    pub fn wait_for_acknowledgements(&self, timeout: Duration) -> Result<bool> {
        let timeout = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: the publisher is initialised.
        let ret = unsafe { rcl_publisher_wait_for_all_acked(self.raw.get(), timeout) };
        if ret == RCL_RET_TIMEOUT as rcl_ret_t {
            forget();
            return Ok(false);
        }
        check(ret, || format!("wait for the subscriptions of {}", self.topic())).map(|()| true)
    }

    /// Counts the subscriptions that are connected to it.
    pub fn subscription_count(&self) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the publisher is initialised.
        let ret = unsafe { rcl_publisher_get_subscription_count(self.raw.get(), &mut count) };
        check(ret, || format!("count the subscriptions of {}", self.topic())).map(|()| count)
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _changing = self.node.lock();
        // SAFETY: the publisher belongs to this node and is initialised, and no other code uses it.
        ignore(unsafe { rcl_publisher_fini(self.raw.get(), self.node.get()) });
    }
}

/// A publisher of a generated message.
pub struct MessagePublisher<T> {
    publisher: Publisher,
    message: PhantomData<fn(T)>,
}

impl<T: WrappedTypesupport> MessagePublisher<T> {
    pub(super) fn new(publisher: Publisher) -> Self {
        MessagePublisher { publisher, message: PhantomData }
    }

    /// The publisher of the bytes.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Publishes a message.
    pub fn publish(&self, message: &T) -> Result<()> {
        let native = Native::from_message(message)?;
        let raw = self.publisher.raw.get();
        // SAFETY: the native message is of the publisher's type; rcl only reads it.
        let ret = unsafe { rcl_publish(raw, native.get().cast(), std::ptr::null_mut()) };
        check(ret, || format!("publish on {}", self.publisher.topic()))
    }
}

/// A generated message as a C struct.
pub(super) struct Native<T: WrappedTypesupport>(NonNull<T::CStruct>);

impl<T: WrappedTypesupport> Native<T> {
    /// A default message.
    pub(crate) fn new() -> Result<Self> {
        let message = NonNull::new(T::create_msg());
        message.map(Native).ok_or_else(|| RclError::new("create a message", "out of memory"))
    }

    /// Copies `message`. A text with a NUL inside is an error, because C cannot hold it.
    pub(crate) fn from_message(message: &T) -> Result<Self> {
        let mut native = Native::<T>::new()?;
        // On a NUL r2r panics. SAFETY: the message was created above and no other code has it.
        let copy = || message.copy_to_native(unsafe { native.0.as_mut() });
        let copied = catch_unwind(AssertUnwindSafe(copy));
        copied.map_err(|_| RclError::new("convert a message", "expected texts without NUL"))?;
        Ok(native)
    }

    pub(crate) fn to_message(&self) -> T {
        // SAFETY: the message is initialised.
        T::from_native(unsafe { self.0.as_ref() })
    }

    pub(crate) fn get(&self) -> *mut T::CStruct {
        self.0.as_ptr()
    }
}

impl<T: WrappedTypesupport> Drop for Native<T> {
    fn drop(&mut self) {
        T::destroy_msg(self.0.as_ptr());
    }
}
