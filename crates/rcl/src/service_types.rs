//! The types of a service, found by the service's name at run time.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use libloading::{Library, Symbol};
use r2r_rcl::{
    rcl_serialized_message_t, rcutils_get_default_allocator, rmw_deserialize, rmw_serialize,
    rosidl_message_type_support_t, rosidl_service_type_support_t,
};

use super::error::check;
use super::message::SerializedMessage;
use super::type_support::{open, split};
use super::{RclError, Result};

/// The types of a service. Its user must keep them, because they keep the service's library loaded.
pub(super) struct ServiceTypes {
    service: NonNull<rosidl_service_type_support_t>,
    pub request: PartType,
    pub response: PartType,
}

/// The type of a request or of a response.
pub(super) struct PartType {
    handle: NonNull<rosidl_message_type_support_t>,
    create: unsafe extern "C" fn() -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    /// Keeps all of the above.
    _library: Arc<Library>,
}

/// A request or a response, as a C struct.
pub(super) struct PartMessage<'a> {
    message: NonNull<c_void>,
    of: &'a PartType,
}

// SAFETY: the descriptions are constant data of a library, and the functions allocate memory.
unsafe impl Send for ServiceTypes {}

impl ServiceTypes {
    /// Loads the types of a service such as `std_srvs/srv/SetBool`.
    pub(super) fn load(ros_type: &str) -> Result<Self> {
        let error = |detail| RclError::new(format!("load the type {ros_type:?}"), detail);
        let (package, name) = split(ros_type, "srv").ok_or_else(|| {
            error("expected package/srv/Type, such as std_srvs/srv/SetBool".to_owned())
        })?;
        let library = Arc::new(open(package).map_err(error)?);
        let full = format!("{package}__srv__{name}");
        let symbol = format!("rosidl_typesupport_c__get_service_type_support_handle__{full}");
        // SAFETY: rosidl generates a function of this name and signature for every service.
        let service = unsafe {
            let getter = find::<unsafe extern "C" fn() -> *mut _>(&library, &symbol);
            getter.and_then(|getter| NonNull::new(getter()))
        };
        let missing = || format!("the package {package} is installed and has no service {name}");
        let (Some(service), Some(request), Some(response)) = (
            service,
            PartType::load(&library, &format!("{full}_Request")),
            PartType::load(&library, &format!("{full}_Response")),
        ) else {
            return Err(error(missing()));
        };
        Ok(ServiceTypes { service, request, response })
    }

    pub(super) fn service(&self) -> *const rosidl_service_type_support_t {
        self.service.as_ptr()
    }
}

impl PartType {
    fn load(library: &Arc<Library>, name: &str) -> Option<Self> {
        let symbol = format!("rosidl_typesupport_c__get_message_type_support_handle__{name}");
        // SAFETY: rosidl generates functions of these names and signatures for each part of a service. The last two are in
        // a library that this one needs.
        unsafe {
            let getter = find::<unsafe extern "C" fn() -> *mut _>(library, &symbol)?;
            Some(PartType {
                handle: NonNull::new(getter())?,
                create: find(library, &format!("{name}__create"))?,
                destroy: find(library, &format!("{name}__destroy"))?,
                _library: Arc::clone(library),
            })
        }
    }

    /// A default message.
    pub(super) fn create(&self) -> Result<PartMessage<'_>> {
        // SAFETY: the function allocates a message of this type and initialises it.
        let message = NonNull::new(unsafe { (self.create)() });
        let message = message.ok_or_else(|| RclError::new("create a message", "out of memory"))?;
        Ok(PartMessage { message, of: self })
    }

    /// The message of these serialized bytes.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<PartMessage<'_>> {
        let message = self.create()?;
        // SAFETY: rmw reads the bytes alone, and fills the message, which has this type.
        let ret = unsafe {
            let serialized = rcl_serialized_message_t {
                buffer: bytes.as_ptr().cast_mut(),
                buffer_length: bytes.len(),
                buffer_capacity: bytes.len(),
                allocator: rcutils_get_default_allocator(),
            };
            rmw_deserialize(&serialized, self.handle.as_ptr(), message.get())
        };
        check(ret, || "read a serialized message".to_owned()).map(|()| message)
    }
}

impl PartMessage<'_> {
    pub(super) fn get(&self) -> *mut c_void {
        self.message.as_ptr()
    }

    /// The serialized message.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = SerializedMessage::default();
        bytes.fill(|serialized| {
            // SAFETY: the message is initialised and has this type; rmw writes into the buffer.
            let ret = unsafe { rmw_serialize(self.get(), self.of.handle.as_ptr(), serialized) };
            check(ret, || "serialize a message".to_owned()).map(|()| true)
        })?;
        Ok(bytes.to_vec())
    }
}

impl Drop for PartMessage<'_> {
    fn drop(&mut self) {
        // SAFETY: `create` made it, and no other code has it.
        unsafe { (self.of.destroy)(self.get()) }
    }
}

/// A function of a library.
///
/// # Safety
/// If there is one of this name, it has this type.
unsafe fn find<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: as the caller says.
    let found: std::result::Result<Symbol<'_, F>, _> = unsafe { library.get(name.as_bytes()) };
    found.ok().map(|found| *found)
}
