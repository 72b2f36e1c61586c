//! The middleware's profile. With Fast DDS's default shared-memory segment of half a megabyte most
//! messages of a camera's or a tensor's size are lost, and the segment of the *publisher* counts:
//! this node's own for its tensors.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that this repository sets, and Fast DDS's newer name for it.
const VARIABLES: [&str; 2] = ["FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"];
/// Files in the working folder that Fast DDS reads by itself.
const LOCAL_FILES: [&str; 2] = ["DEFAULT_FASTRTPS_PROFILES.xml", "DEFAULT_FASTDDS_PROFILES.xml"];
/// The profile inside an install prefix.
const INSTALLED: &str = "share/robocache_ros/config/fastdds.xml";
/// Fast DDS's default segment \[bytes\].
const DEFAULT_SEGMENT: usize = 512 << 10;

/// Gives this process robocache's profile unless the user has chosen one or another middleware, by
/// starting the program anew in its own place: the middleware reads the environment, which a
/// running process cannot safely change. To be called before anything else is.
pub fn ensure() {
    if chosen() {
        return;
    }
    let (Some(profile), Ok(program)) = (installed(), std::env::current_exe()) else { return };
    // Returns only where it fails; then the node runs on, and `warn_of` says what that means.
    let _ =
        Command::new(program).args(std::env::args_os().skip(1)).env(VARIABLES[0], profile).exec();
}

/// Warns where tensors of this size \[bytes\] will not fit the middleware's default.
pub fn warn_of(tensor_bytes: usize) {
    if tensor_bytes * 2 > DEFAULT_SEGMENT && !chosen() {
        tracing::warn!(
            "a tensor has {tensor_bytes} bytes and Fast DDS's default shared memory {DEFAULT_SEGMENT}: \
             most will be lost; set {}={}",
            VARIABLES[0],
            hint(),
        );
    }
}

/// Where the profile is, for people.
pub fn hint() -> String {
    installed().map_or_else(
        || "<robocache_ros>/config/fastdds.xml".to_owned(),
        |path| path.display().to_string(),
    )
}

/// Whether the user has chosen a profile, or another middleware.
fn chosen() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let other_middleware = std::env::var("RMW_IMPLEMENTATION")
        .is_ok_and(|name| !name.is_empty() && !name.starts_with("rmw_fastrtps"));
    other_middleware
        || VARIABLES.iter().any(|name| set(name))
        || LOCAL_FILES.iter().any(|file| Path::new(file).exists())
}

/// The installed profile: of the sourced workspace, or of the prefix that the program lies in.
fn installed() -> Option<PathBuf> {
    let sourced = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let sourced: Vec<PathBuf> = std::env::split_paths(&sourced).collect();
    let program = std::env::current_exe().ok();
    let around = program.iter().flat_map(|program| program.ancestors().skip(1).take(3));
    let mut prefixes = sourced.iter().map(PathBuf::as_path).chain(around);
    prefixes.find_map(|prefix| Some(prefix.join(INSTALLED)).filter(|file| file.is_file()))
}
