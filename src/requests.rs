//! Answers the requests of services, each once.

use std::collections::VecDeque;
use std::sync::Arc;

use r2r::WrappedServiceTypeSupport;
use robocache_rcl::{NamedService, Node, RclError, RequestId, Result, Service, Wake};

/// Requests that are remembered: more than may come twice. Each connection keeps the last ten of each service.
const REMEMBERED: usize = 256;

/// The requests that were taken lately. While two connections offer a service, a client sends each request to both.
#[derive(Default)]
pub(crate) struct Taken(VecDeque<RequestId>);

impl Taken {
    /// Takes a request of this service that is new; `None` if none waits.
    pub(crate) fn take<T: WrappedServiceTypeSupport>(
        &mut self,
        service: &Service<T>,
    ) -> Result<Option<(RequestId, T::Request)>> {
        Ok(service.take_request()?.filter(|(id, _)| self.is_new(*id)))
    }

    /// True if this request has not been taken before. From now on it has.
    fn is_new(&mut self, id: RequestId) -> bool {
        if self.0.contains(&id) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(id);
        true
    }
}

/// Offers services of a node.
#[derive(Clone, Copy)]
pub(crate) struct Offerer<'a> {
    pub node: &'a Node,
    /// Ends the wait of the thread that answers them.
    pub wake: &'a Arc<Wake>,
}

impl Offerer<'_> {
    /// Offers a service under the node's name.
    ///
    /// # Errors
    /// The middleware refuses.
    pub(crate) fn offer<T: WrappedServiceTypeSupport>(self, name: &str) -> Result<Service<T>> {
        let mut service = self.node.serve(&format!("~/{name}"))?;
        service.tell(self.wake)?;
        Ok(service)
    }

    /// Offers a service of any installed type under the node's name.
    ///
    /// # Errors
    /// The middleware refuses, or the type is not installed.
    pub(crate) fn offer_named(self, name: &str, ros_type: &str) -> Result<NamedService> {
        let mut service = self.node.serve_named(&format!("~/{name}"), ros_type)?;
        service.tell(self.wake)?;
        Ok(service)
    }
}

/// Answers one request of the service, if one waits.
pub(crate) fn answer<T: WrappedServiceTypeSupport>(
    service: &Service<T>,
    taken: &mut Taken,
    reply: impl FnOnce(T::Request) -> T::Response,
) {
    let answered = taken.take(service).and_then(|request| match request {
        Some((id, request)) => service.respond(id, &reply(request)),
        None => Ok(()),
    });
    answered.unwrap_or_else(|error| log_failure(&error));
}

/// Answers one request of a service with serialized messages, if one waits.
pub(crate) fn answer_bytes(
    service: &NamedService,
    taken: &mut Taken,
    reply: impl FnOnce(&[u8]) -> Vec<u8>,
) {
    let answered = service.take_request().and_then(|request| match request {
        Some((id, request)) if taken.is_new(id) => service.respond(id, &reply(&request)),
        _ => Ok(()),
    });
    answered.unwrap_or_else(|error| log_failure(&error));
}

/// Logs that a request was not answered. The client may have ended by now, so this is no fault of the node.
pub(crate) fn log_failure(error: &RclError) {
    tracing::debug!("failed to answer a request: {error}");
}
