//! Definitions of message types: the text of a `.msg` file, and of the types that it names.

use super::text;
use robocache_core::schema::{Definitions, resolve};

/// One text for the type, and one for all others.
struct Texts<'a>([&'a str; 2]);

impl Definitions for Texts<'_> {
    fn find(&self, name: &str) -> Result<String, String> {
        Ok(self.0[usize::from(name != "a/msg/A")].to_owned())
    }
}

pub(crate) fn run(input: &[u8]) {
    let text = text(input);
    // Two members of a type in each of 32 levels would be 2^32 members: the limit must hold first.
    let (first, others) = text.split_once("\n===\n").unwrap_or((text, "uint8 x"));
    let _ = resolve("a/msg/A", &Texts([first, others]));
}
