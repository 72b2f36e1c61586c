//! The port by which a policy receives samples: tensors, and what they mean.

use iceoryx2::port::ReceiveError;
use iceoryx2::port::subscriber::{Subscriber, SubscriberCreateError};
use iceoryx2::sample::Sample;
use robocache_core::config::describe::shared_memory::READERS;

use super::SharedError;
use super::service::{Engine, Page, TensorHeader, Tensors, bytes_of};

pub(crate) type Port = Subscriber<Engine, [Page], TensorHeader>;
pub(crate) type Received = Sample<Engine, [Page], TensorHeader>;

/// Subscribes to a service of samples.
pub(crate) fn subscribe(samples: &Tensors, service: &str) -> Result<Port, SharedError> {
    samples.subscriber_builder().history_request(1).create().map_err(|why| match why {
        SubscriberCreateError::ExceedsMaxSupportedSubscribers => full(service),
        why => SharedError::failed(service, "read tensors")(&why),
    })
}

pub(crate) fn full(service: &str) -> SharedError {
    SharedError::Full { service: service.to_owned(), most: READERS }
}

/// Takes the newest sample.
pub(crate) fn receive(port: &Port, service: &str) -> Result<Option<Received>, SharedError> {
    let mut newest = None;
    loop {
        match port.receive() {
            Ok(Some(sample)) => newest = Some(sample),
            Ok(None) => return Ok(newest),
            Err(ReceiveError::ExceedsMaxBorrows) if newest.is_some() => return Ok(newest),
            Err(why) => return Err(SharedError::failed(service, "receive a tensor")(&why)),
        }
    }
}

/// The message in a sample; `None` if the header does not fit.
pub(crate) fn message_in(sample: &Received) -> Option<&[u8]> {
    let TensorHeader { start, len, .. } = *sample.user_header();
    let start = usize::try_from(start).ok()?;
    let len = usize::try_from(len).ok()?;
    bytes_of(sample.payload()).get(start..start.checked_add(len)?)
}
