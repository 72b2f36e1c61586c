//! Answers the requests of services, each once.

use std::collections::VecDeque;

use r2r::WrappedServiceTypeSupport;
use robocache_rcl::{Node, RclError, RequestId, Result, Service};

/// Requests that are remembered: more than may come twice. Each connection keeps the last ten of each service.
const REMEMBERED: usize = 256;

/// The requests that were taken lately. While two connections offer a service, a client sends each request to both.
#[derive(Default)]
pub struct Taken(VecDeque<RequestId>);

impl Taken {
    /// Takes a request of this service that is new; `None` if none waits.
    pub fn take<T: WrappedServiceTypeSupport>(
        &mut self,
        service: &Service<T>,
    ) -> Result<Option<(RequestId, T::Request)>> {
        Ok(service.take_request()?.filter(|(id, _)| self.is_new(*id)))
    }

    /// Whether this request has not been taken before. From now on it has.
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

/// Offers a service under the node's name.
///
/// # Errors
/// The middleware refuses.
pub fn offer<T: WrappedServiceTypeSupport>(node: &Node, name: &str) -> Result<Service<T>> {
    node.serve(&format!("~/{name}"))
}

/// If the service is `ready`, answers one request.
pub fn answer<T: WrappedServiceTypeSupport>(
    ready: bool,
    service: &Service<T>,
    taken: &mut Taken,
    reply: impl FnOnce(T::Request) -> T::Response,
) {
    if !ready {
        return;
    }
    let answered = taken.take(service).and_then(|request| match request {
        Some((id, request)) => service.respond(id, &reply(request)),
        None => Ok(()),
    });
    answered.unwrap_or_else(|error| log_failure(&error));
}

/// Logs that a request was not answered. The client may have ended by now, so this is no fault of the node.
pub fn log_failure(error: &RclError) {
    tracing::debug!("failed to answer a request: {error}");
}
