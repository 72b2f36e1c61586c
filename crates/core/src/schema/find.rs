//! Search for the definitions of messages.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest file that a configuration may name \[bytes\].
const MAX_FILE_BYTES: u64 = 1 << 26;

/// A source of definitions, and of the other files that a configuration names.
pub trait Definitions {
    /// Returns the text of the definition of `name` (`package/msg/Type`).
    ///
    /// # Errors
    /// The definition is missing. Says where it was sought, and what to do.
    fn find(&self, name: &str) -> Result<String, String>;

    /// Returns the text of a file that a configuration names. By default it is read from the disk; a recording has its own.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn file(&self, path: &Path) -> Result<String, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(wrong)?;
        let mut text = String::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
        match read as u64 > MAX_FILE_BYTES {
            true => Err(format!("more than {MAX_FILE_BYTES} bytes")),
            false => Ok(text),
        }
    }
}

/// The installed packages: the prefixes that sourcing ROS and a workspace puts into
/// `AMENT_PREFIX_PATH`.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    prefixes: Vec<PathBuf>,
}

impl Prefixes {
    /// The prefixes of this process.
    pub fn of_environment() -> Self {
        let path = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
        let given = std::env::split_paths(&path).filter(|prefix| !prefix.as_os_str().is_empty());
        Prefixes { prefixes: given.collect() }
    }

    /// These prefixes, the first first.
    pub fn new(prefixes: Vec<PathBuf>) -> Self {
        Prefixes { prefixes }
    }

    /// True if there is no prefix: no ROS is sourced.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// True if a package is installed.
    pub fn have(&self, package: &str) -> bool {
        self.share_of(package).is_some()
    }

    /// The first prefix that has the package.
    fn share_of(&self, package: &str) -> Option<&PathBuf> {
        self.prefixes.iter().find(|prefix| prefix.join("share").join(package).is_dir())
    }
}

impl Definitions for Prefixes {
    fn find(&self, name: &str) -> Result<String, String> {
        let parts: Vec<&str> = name.split('/').collect();
        // The name becomes a path: no part of it may lead elsewhere.
        let is_word = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let [package, folder, own] = parts[..] else {
            return Err("expected a name such as geometry_msgs/msg/Point".into());
        };
        if !parts.iter().all(is_word) {
            return Err("expected a name such as geometry_msgs/msg/Point".into());
        }
        let file = Path::new("share").join(package).join(folder).join(own);
        for prefix in &self.prefixes {
            let path = prefix.join(&file).with_extension("msg");
            if path.is_file() {
                return std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()));
            }
        }
        let idl = file.with_extension("idl");
        if self.prefixes.iter().any(|prefix| prefix.join(&idl).is_file()) {
            return Err(format!(
                "expected {own}.msg, found only {}; a type that is defined in IDL alone cannot be \
                 selected from",
                idl.display()
            ));
        }
        Err(match self.share_of(package) {
            _ if self.is_empty() => {
                "AMENT_PREFIX_PATH is not set; source ROS and the workspace that has the package"
                    .into()
            }
            Some(prefix) => format!(
                "expected {} in {}, found no such file",
                file.with_extension("msg").display(),
                prefix.display()
            ),
            None => format!(
                "no package {package} in AMENT_PREFIX_PATH; source the workspace that has it"
            ),
        })
    }
}
