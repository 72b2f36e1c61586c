//! Who decides on Fast DDS's profile: the user, or robocache. The launch file has the same rule;
//! tests/configs/profile_choice.json tests both.

use std::ffi::OsString;

/// Name the file of a profile. Fast DDS 2 reads the first, Fast DDS 3 the second.
pub(super) const VARIABLES: [&str; 2] =
    ["FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"];
/// Files that Fast DDS reads by itself, if they are in the working folder.
const LOCAL_FILES: [&str; 2] = ["DEFAULT_FASTRTPS_PROFILES.xml", "DEFAULT_FASTDDS_PROFILES.xml"];
/// Names the middleware.
const MIDDLEWARE: &str = "RMW_IMPLEMENTATION";

/// The user's choice of a middleware or a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Another middleware than Fast DDS.
    Middleware,
    /// The profile that this variable names.
    Variable(&'static str),
    /// The profile in this file in the working folder.
    LocalFile(&'static str),
}

/// The surroundings of a process that count.
pub(super) struct Surroundings<'a> {
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Returns true if a file exists in the working folder.
    pub exists: &'a dyn Fn(&str) -> bool,
    /// Returns true if the file at this path is robocache's own profile, unchanged.
    pub is_ours: &'a dyn Fn(&OsString) -> bool,
}

impl Surroundings<'_> {
    /// Returns the user's choice; `None`: robocache decides. An empty variable counts as not set.
    /// robocache's own profile is no choice: launch files and `.ros/env.sh` set it for everybody.
    pub(super) fn choice(&self) -> Option<Choice> {
        let set = |name: &str| (self.variable)(name).filter(|value| !value.is_empty());
        let other = |name: OsString| !name.to_string_lossy().starts_with("rmw_fastrtps");
        if set(MIDDLEWARE).is_some_and(other) {
            return Some(Choice::Middleware);
        }
        let theirs = |name: &&str| set(name).is_some_and(|path| !(self.is_ours)(&path));
        if let Some(name) = VARIABLES.into_iter().find(theirs) {
            return Some(Choice::Variable(name));
        }
        LOCAL_FILES.into_iter().find(|file| (self.exists)(file)).map(Choice::LocalFile)
    }
}

#[cfg(test)]
mod tests;
