//! The description of a message type for the middleware, found by the type's name at run time.

use std::error::Error;
use std::path::PathBuf;
use std::ptr::NonNull;

use libloading::{Library, Symbol};
use r2r_rcl::rosidl_message_type_support_t;

use super::{RclError, Result};

/// A type's description. Its user must keep it, because it keeps the type's library loaded.
pub(super) struct TypeSupport {
    handle: NonNull<rosidl_message_type_support_t>,
    /// Only for a type that was found by its name.
    _library: Option<Library>,
}

// SAFETY: the description is constant data of a library.
unsafe impl Send for TypeSupport {}
// SAFETY: as above.
unsafe impl Sync for TypeSupport {}

/// The function in a type's library that returns the description.
type Getter = unsafe extern "C" fn() -> *const rosidl_message_type_support_t;

impl TypeSupport {
    /// The description of a type that this program is linked with.
    pub(crate) fn linked(handle: &'static rosidl_message_type_support_t) -> Self {
        TypeSupport { handle: NonNull::from(handle), _library: None }
    }

    /// Loads the description of a type such as `sensor_msgs/msg/Image`.
    pub(crate) fn load(ros_type: &str) -> Result<Self> {
        let error = |detail| RclError::new(format!("load the type {ros_type:?}"), detail);
        let (package, name) = split(ros_type, "msg").ok_or_else(|| {
            error("expected package/msg/Type, such as sensor_msgs/msg/Image".to_owned())
        })?;
        let library = open(package).map_err(error)?;
        let symbol = format!(
            "rosidl_typesupport_c__get_message_type_support_handle__{package}__msg__{name}"
        );
        // SAFETY: rosidl generates a function of this name and signature for every message.
        let getter: std::result::Result<Symbol<'_, Getter>, _> =
            unsafe { library.get(symbol.as_bytes()) };
        let handle = match getter {
            // SAFETY: as above; the description is in the library, which is kept beside it.
            Ok(getter) => NonNull::new(unsafe { getter() }.cast_mut()),
            Err(_) => None,
        };
        let missing = || format!("the package {package} is installed and has no message {name}");
        let handle = handle.ok_or_else(|| error(missing()))?;
        Ok(TypeSupport { handle, _library: Some(library) })
    }

    pub(crate) fn get(&self) -> *const rosidl_message_type_support_t {
        self.handle.as_ptr()
    }
}

/// Splits `package/KIND/Name` into package and name. Both become part of a file name and a symbol.
pub(super) fn split<'a>(ros_type: &'a str, wanted: &str) -> Option<(&'a str, &'a str)> {
    let identifier = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut parts = ros_type.split('/');
    let package = parts.next()?;
    let kind = parts.next()?;
    let name = parts.next()?;
    let complete = parts.next().is_none() && kind == wanted;
    (complete && [package, name].iter().all(identifier)).then_some((package, name))
}

/// Opens a package's library from the sourced prefixes, else from the loader's own paths.
pub(super) fn open(package: &str) -> std::result::Result<Library, String> {
    let file = format!("lib{package}__rosidl_typesupport_c.so");
    let prefixes = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let sourced = std::env::split_paths(&prefixes).map(|prefix| prefix.join("lib").join(&file));
    let installed: Vec<PathBuf> = sourced.filter(|path| path.is_file()).collect();
    let missing = if installed.is_empty() { Some(package) } else { None };
    let mut reasons = Vec::new();
    for path in installed.into_iter().chain([PathBuf::from(&file)]) {
        // SAFETY: ROS generates the library; loading it runs only its own set-up.
        match unsafe { Library::new(&path) } {
            Ok(library) => return Ok(library),
            // The loader's own words are in the source; they name the file that is missing.
            Err(error) => reasons.push(match error.source() {
                Some(loader) => loader.to_string(),
                None => error.to_string(),
            }),
        }
    }
    Err(absent(package, missing, &reasons))
}

/// Says which package must be installed: `missing`, else one that a library of `package` needs and
/// the loader does not find.
fn absent(package: &str, missing: Option<&str>, reasons: &[String]) -> String {
    let named = |reason: &String| {
        // The loader begins with the file's name: "libstd_msgs__rosidl_generator_c.so: cannot open".
        let file = reason.split(':').next()?.strip_prefix("lib")?;
        let (nested, _) = file.split_once("__rosidl_")?;
        (nested != package).then(|| nested.to_owned())
    };
    let missing = missing.map(str::to_owned).or_else(|| reasons.iter().find_map(named));
    let reasons = reasons.join("; ");
    let Some(missing) = missing else {
        return format!(
            "the package {package} is installed, but its library does not load ({reasons})"
        );
    };
    let why = match missing == package {
        true => String::new(),
        false => format!("the package {package} is installed and needs it, but "),
    };
    format!(
        "{why}the package {missing} is not in AMENT_PREFIX_PATH; install ros-$ROS_DISTRO-{} or \
         source the workspace that holds it ({reasons})",
        missing.replace('_', "-")
    )
}

#[cfg(test)]
mod tests;
