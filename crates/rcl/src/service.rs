//! Servers of services.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use r2r::WrappedServiceTypeSupport;
use r2r_rcl::*;

use super::Result;
use super::error::{c_string, check, forget};
use super::node_inner::NodeInner;
use super::publisher::Native;
use super::raw::Raw;
use super::service_types::ServiceTypes;
use super::wake::{News, Wake};

/// A server of a generated service.
pub struct Service<T> {
    server: Server,
    service: PhantomData<fn() -> T>,
}

/// A server of a service of any installed type. Its requests and answers are serialized.
pub struct NamedService {
    server: Server,
    types: ServiceTypes,
}

/// The part that all servers have.
struct Server {
    raw: Raw<rcl_service_t>,
    /// `None` if the middleware tells nothing.
    news: Option<Arc<News>>,
    node: Arc<NodeInner>,
}

// SAFETY: rcl ties a service to no thread, and `Server` is not `Sync`.
unsafe impl Send for Server {}

/// Identifies a request, for its answer: by its client, and by its number of that client. Each server that
/// gets the request sees the same id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestId(rmw_request_id_t);

impl Server {
    /// Offers a service. Its types must outlive the server.
    fn new(
        node: &Arc<NodeInner>,
        name: &str,
        types: *const rosidl_service_type_support_t,
    ) -> Result<Self> {
        let c_name = c_string("the service", name)?;
        let _changing = node.lock();
        // SAFETY: the node is initialised and outlives the service, as the types do; rcl copies the rest.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_service());
            let options = rcl_service_get_default_options();
            let ret = rcl_service_init(raw.get(), node.get(), types, c_name.as_ptr(), &options);
            check(ret, || format!("offer the service {}", c_name.to_string_lossy()))?;
            raw
        };
        Ok(Server { raw, news: None, node: Arc::clone(node) })
    }

    fn tell(&mut self, wake: &Arc<Wake>) -> Result<()> {
        let news = News::new(wake);
        // SAFETY: the service is initialised. It keeps the news until it has ended, or until the middleware has the next one.
        let ret = unsafe {
            let raw = self.raw.get();
            let address = Arc::as_ptr(&news).cast();
            rcl_service_set_on_new_request_callback(raw, Some(News::callback), address)
        };
        check(ret, || "be told of new requests".to_owned())?;
        // If a request comes while the callback is set, Fast DDS does not call it.
        news.tell();
        drop(self.news.replace(news));
        Ok(())
    }

    fn client_count(&self) -> Result<usize> {
        let mut count = 0;
        // No lock, because ending an entity of the node may take long. SAFETY: node and service are initialised. The service
        // has a name, and rcl writes the count. The middleware guards what it has found.
        let ret = unsafe {
            let name = rcl_service_get_service_name(self.raw.get());
            rcl_count_clients(self.node.get(), name, &mut count)
        };
        check(ret, || "count the clients of a service".to_owned()).map(|()| count)
    }

    /// Takes a request into `request`.
    ///
    /// # Safety
    /// It is an initialised request of the service's type.
    unsafe fn take(&self, request: *mut c_void) -> Result<Option<RequestId>> {
        let mut id = rmw_request_id_t { writer_guid: [0; 16], sequence_number: 0 };
        // SAFETY: the service is initialised; rcl fills the id and the request, which has the service's type.
        let ret = unsafe { rcl_take_request(self.raw.get(), &mut id, request) };
        if ret == RCL_RET_SERVICE_TAKE_FAILED as rcl_ret_t {
            forget();
            return Ok(None);
        }
        // Another one may wait; after a failure, this one does.
        self.news.as_ref().inspect(|news| news.tell());
        check(ret, || "take a request".to_owned()).map(|()| Some(RequestId(id)))
    }

    /// Answers a request.
    ///
    /// # Safety
    /// `response` is an initialised response of the service's type.
    unsafe fn respond(&self, RequestId(mut id): RequestId, response: *mut c_void) -> Result<()> {
        // SAFETY: the service is initialised; rcl reads the id and the response, which has the service's type.
        let ret = unsafe { rcl_send_response(self.raw.get(), &mut id, response) };
        check(ret, || "answer a request".to_owned())
    }
}

impl<T: WrappedServiceTypeSupport> Service<T> {
    pub(super) fn new(node: &Arc<NodeInner>, name: &str) -> Result<Self> {
        // The type is part of this program.
        Ok(Service { server: Server::new(node, name, T::get_ts())?, service: PhantomData })
    }

    /// Ends a wait of `wake` from now on when a request comes, and as long as one may wait.
    ///
    /// # Errors
    /// The middleware has no callbacks for requests.
    pub fn tell(&mut self, wake: &Arc<Wake>) -> Result<()> {
        self.server.tell(wake)
    }

    /// Counts the clients that discovery has found.
    pub fn client_count(&self) -> Result<usize> {
        self.server.client_count()
    }

    /// Takes the oldest waiting request; `None` if none waits. Fast DDS also says so of a malformed one, behind which another
    /// may wait. So the caller also takes now and then.
    pub fn take_request(&self) -> Result<Option<(RequestId, T::Request)>> {
        let request = Native::<T::Request>::new()?;
        // SAFETY: the request was created above, and is of the service's type.
        let id = unsafe { self.server.take(request.get().cast()) }?;
        Ok(id.map(|id| (id, request.to_message())))
    }

    /// Answers a request.
    pub fn respond(&self, id: RequestId, response: &T::Response) -> Result<()> {
        let response = Native::from_message(response)?;
        // SAFETY: the response was created above, and is of the service's type.
        unsafe { self.server.respond(id, response.get().cast()) }
    }
}

impl NamedService {
    pub(super) fn new(node: &Arc<NodeInner>, name: &str, ros_type: &str) -> Result<Self> {
        let types = ServiceTypes::load(ros_type)?;
        Ok(NamedService { server: Server::new(node, name, types.service())?, types })
    }

    /// As of [`Service::tell`].
    ///
    /// # Errors
    /// The middleware has no callbacks for requests.
    pub fn tell(&mut self, wake: &Arc<Wake>) -> Result<()> {
        self.server.tell(wake)
    }

    /// As of [`Service::client_count`].
    pub fn client_count(&self) -> Result<usize> {
        self.server.client_count()
    }

    /// As of [`Service::take_request`]. The request is serialized.
    pub fn take_request(&self) -> Result<Option<(RequestId, Vec<u8>)>> {
        let request = self.types.request.create()?;
        // SAFETY: the request was created above, and is of the service's type.
        let id = unsafe { self.server.take(request.get()) }?;
        let Some(id) = id else { return Ok(None) };
        Ok(Some((id, request.to_bytes()?)))
    }

    /// Answers a request with a serialized response.
    pub fn respond(&self, id: RequestId, response: &[u8]) -> Result<()> {
        let response = self.types.response.read(response)?;
        // SAFETY: the response was created above, and is of the service's type.
        unsafe { self.server.respond(id, response.get()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _changing = self.node.lock();
        // SAFETY: the service belongs to this node and is initialised.
        let ret = unsafe { rcl_service_fini(self.raw.get(), self.node.get()) };
        News::end(self.news.take(), ret);
    }
}
