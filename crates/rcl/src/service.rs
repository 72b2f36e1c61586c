//! Servers of generated services.

use std::marker::PhantomData;
use std::sync::Arc;

use r2r::WrappedServiceTypeSupport;
use r2r_rcl::*;

use super::Result;
use super::error::{c_string, check, forget};
use super::node_inner::NodeInner;
use super::publisher::Native;
use super::raw::Raw;
use super::wake::{News, Wake};

/// A server of a generated service.
pub struct Service<T> {
    raw: Raw<rcl_service_t>,
    /// `None` if the middleware tells nothing.
    news: Option<Arc<News>>,
    node: Arc<NodeInner>,
    service: PhantomData<fn() -> T>,
}

// SAFETY: rcl ties a service to no thread, and `Service` is not `Sync`.
unsafe impl<T> Send for Service<T> {}

/// Identifies a request, for its answer: by its client, and by its number of that client. Each server that
/// gets the request sees the same id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestId(rmw_request_id_t);

impl<T: WrappedServiceTypeSupport> Service<T> {
    pub(super) fn new(node: &Arc<NodeInner>, name: &str) -> Result<Self> {
        let c_name = c_string("the service", name)?;
        let _changing = node.lock();
        // SAFETY: the node is initialised and outlives the service; the type is part of this
        // program; rcl copies the rest.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_service());
            let options = rcl_service_get_default_options();
            let (types, name) = (T::get_ts(), c_name.as_ptr());
            let ret = rcl_service_init(raw.get(), node.get(), types, name, &options);
            check(ret, || format!("offer the service {}", c_name.to_string_lossy()))?;
            raw
        };
        Ok(Service { raw, news: None, node: Arc::clone(node), service: PhantomData })
    }

    /// Ends a wait of `wake` from now on when a request comes, and as long as one may wait.
    ///
    /// # Errors
    /// The middleware has no callbacks for requests.
    pub fn tell(&mut self, wake: &Arc<Wake>) -> Result<()> {
        let news = News::new(wake);
        // SAFETY: the service is initialised. It keeps the news until it has ended, or until the middleware has the next one.
        let ret = unsafe {
            let (raw, address) = (self.raw.get(), Arc::as_ptr(&news).cast());
            rcl_service_set_on_new_request_callback(raw, Some(News::callback), address)
        };
        check(ret, || "be told of new requests".to_owned())?;
        // If a request comes while the callback is set, Fast DDS does not call it.
        news.tell();
        drop(self.news.replace(news));
        Ok(())
    }

    /// Counts the clients that discovery has found.
    pub fn client_count(&self) -> Result<usize> {
        let mut count = 0;
        // No lock, because ending an entity of the node may take long. SAFETY: node and service are initialised. The service
        // has a name, and rcl writes the count. The middleware guards what it has found.
        let ret = unsafe {
            let name = rcl_service_get_service_name(self.raw.get());
            rcl_count_clients(self.node.get(), name, &mut count)
        };
        check(ret, || "count the clients of a service".to_owned()).map(|()| count)
    }

    /// Takes the oldest waiting request; `None` if none waits. Fast DDS also says so of a malformed one, behind which another
    /// may wait. So the caller also takes now and then.
    pub fn take_request(&self) -> Result<Option<(RequestId, T::Request)>> {
        let request = Native::<T::Request>::new()?;
        let mut id = rmw_request_id_t { writer_guid: [0; 16], sequence_number: 0 };
        // SAFETY: the service is initialised; rcl fills the id and the request, which has the
        // service's type.
        let ret = unsafe { rcl_take_request(self.raw.get(), &mut id, request.get().cast()) };
        if ret == RCL_RET_SERVICE_TAKE_FAILED as rcl_ret_t {
            forget();
            return Ok(None);
        }
        // Another one may wait; after a failure, this one does.
        self.news.as_ref().inspect(|news| news.tell());
        check(ret, || "take a request".to_owned())?;
        Ok(Some((RequestId(id), request.to_message())))
    }

    /// Answers a request.
    pub fn respond(&self, RequestId(mut id): RequestId, response: &T::Response) -> Result<()> {
        let response = Native::from_message(response)?;
        // SAFETY: the service is initialised; rcl reads the id and the response, which has the
        // service's type.
        let ret = unsafe { rcl_send_response(self.raw.get(), &mut id, response.get().cast()) };
        check(ret, || "answer a request".to_owned())
    }
}

impl<T> Drop for Service<T> {
    fn drop(&mut self) {
        let _changing = self.node.lock();
        // SAFETY: the service belongs to this node and is initialised.
        let ret = unsafe { rcl_service_fini(self.raw.get(), self.node.get()) };
        News::end(self.news.take(), ret);
    }
}
