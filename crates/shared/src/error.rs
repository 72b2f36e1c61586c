//! Why tensors or chunks are not shared, or not read.

/// An error of shared memory. Its text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The name is not one of a service.
    #[error(
        "expected the name of a service, 1 to {most} letters, digits and _ - . with single / between them, such as \
         robot/tensors, found '{found}'"
    )]
    Name {
        /// The name.
        found: String,
        /// The longest name.
        most: usize,
    },
    /// There is no room for the memory of the tensors.
    #[error(
        "{folder} has room for {free} bytes, but the tensors of '{service}' need {needed}: make it larger (a \
         container: --shm-size), remove what it holds, or publish smaller tensors"
    )]
    NoRoom {
        /// The name of the service.
        service: String,
        /// The folder of the memory.
        folder: String,
        /// The free bytes.
        free: u64,
        /// The bytes that the service needs.
        needed: u64,
    },
    /// There is no room for the memory of chunks and statuses.
    #[error(
        "{folder} has room for {free} bytes, but the chunks and statuses of '{service}' need {needed}: make it larger (a \
         container: --shm-size), or remove what it holds"
    )]
    NoRoomForMessages {
        /// The name of the service.
        service: String,
        /// The folder of the memory.
        folder: String,
        /// The free bytes.
        free: u64,
        /// The bytes that one side needs.
        needed: u64,
    },
    /// Another node shares its tensors under this name.
    #[error("another node publishes as '{0}': end it, or choose another name in `shared_output`")]
    Taken(String),
    /// There are too many readers.
    #[error("'{service}' has {most} readers already: end one")]
    Full {
        /// The name of the service.
        service: String,
        /// The most readers.
        most: usize,
    },
    /// There are too many writers of chunks.
    #[error("'{service}' has {most} writers already: end one")]
    FullOfWriters {
        /// The name of the service.
        service: String,
        /// The most writers.
        most: usize,
    },
    /// A chunk has too many rows.
    #[error("values: expected at most {most} rows, found {found}")]
    Rows {
        /// The most rows.
        most: usize,
        /// The rows of the chunk.
        found: usize,
    },
    /// A service of this name was made by a program with other rules.
    #[error(
        "'{service}' was made by another version of robocache, or by another program: end all its readers and nodes \
         ({why})"
    )]
    OtherVersion {
        /// The name of the service.
        service: String,
        /// The engine's reason.
        why: String,
    },
    /// Somebody else may write the folder of services.
    #[error(
        "shared memory: expected {folder} to be a folder of this user that nobody else may write, found {found}. Run the \
         node and its policies as one user; or end all programs that use the folder, and remove it as its owner or as \
         root; in containers, mount it with this user as its owner and mode 0700"
    )]
    Folder {
        /// The folder.
        folder: String,
        /// Description of what is there instead.
        found: String,
    },
    /// Somebody else may write memory that has the name of this user's memory.
    #[error(
        "shared memory: {file} is of user {by} (mode {mode:o}), but it has the name of memory of user {user}: remove it \
         as its owner or as root, and ask who made it"
    )]
    Memory {
        /// The file.
        file: String,
        /// Its owner.
        by: u32,
        /// Its mode.
        mode: u32,
        /// The user whose name it has.
        user: u32,
    },
    /// The process may not use the memory that other processes share.
    #[error(
        "cannot use the shared memory of '{service}' ({why}): run the node and its policies as one user; in containers, \
         share /tmp/iceoryx2 and the IPC namespace"
    )]
    Join {
        /// The name of the service.
        service: String,
        /// The engine's reason.
        why: String,
    },
    /// The engine failed.
    #[error("shared memory of '{service}': cannot {what}: {why}")]
    Failed {
        /// The name of the service.
        service: String,
        /// The operation that failed.
        what: &'static str,
        /// The engine's reason.
        why: String,
    },
}

impl SharedError {
    /// Why a service cannot be opened or made, from the engine's error. Its kinds differ for each sort of service, but
    /// not their names.
    pub(crate) fn opening(service: &str, why: &dyn std::fmt::Debug) -> Self {
        let service = service.to_owned();
        let why = format!("{why:?}");
        let is_any = |names: &[&str]| names.iter().any(|name| why.contains(name));
        if is_any(&["Incompatible", "DoesNotSupport", "VersionMismatch"]) {
            return SharedError::OtherVersion { service, why };
        }
        if is_any(&["InsufficientPermissions"]) {
            return SharedError::Join { service, why };
        }
        SharedError::Failed { service, what: "open it", why }
    }

    /// Turns an error about the memory of tensors into one about that of messages.
    pub(crate) fn of_messages(self) -> Self {
        match self {
            SharedError::NoRoom { service, folder, free, needed } => {
                SharedError::NoRoomForMessages { service, folder, free, needed }
            }
            other => other,
        }
    }

    /// An error of the engine.
    pub(crate) fn failed(
        service: &str,
        what: &'static str,
    ) -> impl Fn(&dyn std::fmt::Debug) -> Self {
        let service = service.to_owned();
        move |why| SharedError::Failed { service: service.clone(), what, why: format!("{why:?}") }
    }
}
