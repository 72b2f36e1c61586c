//! Answers the requests of a service.

use r2r::WrappedServiceTypeSupport;
use robocache_rcl::{Node, RclError, Result, Service};

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
    reply: impl FnOnce(T::Request) -> T::Response,
) {
    if !ready {
        return;
    }
    let answered = service.take_request().and_then(|request| match request {
        Some((id, request)) => service.respond(id, &reply(request)),
        None => Ok(()),
    });
    answered.unwrap_or_else(|error| log_failure(&error));
}

/// Logs that a request was not answered. The client may have ended by now, so this is no fault of the node.
pub fn log_failure(error: &RclError) {
    tracing::debug!("failed to answer a request: {error}");
}
