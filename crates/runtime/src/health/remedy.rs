//! What to do if the middleware loses large messages.

/// Returns a sentence for the middleware of this name, such as `rmw_fastrtps_cpp`. `profile` is the path of
/// robocache's profile for Fast DDS.
pub fn remedy(middleware: &str, profile: &str) -> String {
    if middleware.starts_with("rmw_fastrtps") {
        return format!(
            "Fast DDS drops large messages if the publisher's shared-memory segment is smaller than \
             two of them: start the publisher with FASTRTPS_DEFAULT_PROFILES_FILE={profile} (a \
             segment of 80 MiB)"
        );
    }
    if middleware.starts_with("rmw_cyclonedds") {
        return "CycloneDDS drops large messages if the receive buffer of the subscriber's socket is \
                smaller than two of them: set the system's limit (sudo sysctl -w \
                net.core.rmem_max=4194304), and start this node with \
                CYCLONEDDS_URI='<CycloneDDS><Domain><Internal><SocketReceiveBufferSize min=\"4MB\" \
                max=\"4MB\"/></Internal></Domain></CycloneDDS>'; more if two messages are larger"
            .to_owned();
    }
    format!(
        "{middleware} may drop large messages: its receive buffers must hold two of the largest"
    )
}

#[cfg(test)]
mod tests;
