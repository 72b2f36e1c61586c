//! Advice for a middleware that loses large messages.

use robocache_core::config::describe::shared_memory::is_fast_dds;

/// Returns a sentence for the middleware of this name, such as `rmw_fastrtps_cpp`. `files` is the folder of
/// robocache's files for a middleware.
pub fn remedy(middleware: &str, files: &str) -> String {
    if is_fast_dds(middleware) {
        return format!(
            "Fast DDS drops large messages if the publisher's shared-memory segment is smaller than \
             two of them: start the publisher with \
             FASTRTPS_DEFAULT_PROFILES_FILE={files}/fastdds.xml (a segment of 80 MiB; Fast DDS 3 \
             reads FASTDDS_DEFAULT_PROFILES_FILE)"
        );
    }
    if middleware.starts_with("rmw_cyclonedds") {
        return format!(
            "CycloneDDS drops large messages if the receive buffer of the subscriber's socket is \
             smaller than two of them: set the system's limit (sudo sysctl -w \
             net.core.rmem_max=4194304), and start this node with \
             CYCLONEDDS_URI=file://{files}/cyclonedds.xml (SocketReceiveBufferSize min 4MB, \
             MaxMessageSize 65500B, FragmentSize 60000B); more if two messages are larger"
        );
    }
    format!(
        "{middleware} may drop large messages: its receive buffers must hold two of the largest"
    )
}

#[cfg(test)]
mod tests;
