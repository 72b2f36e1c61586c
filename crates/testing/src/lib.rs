//! Waits of the tests. A wait ends with its event. If the event does not come while the test is patient, the test
//! panics, and the message begins with `NotInTime`. Every other panic means that the code is wrong.
//!
//! The machine may be to blame for `NotInTime`. So the message has facts, which `scripts/cargo_test.py` reads: when the
//! wait began and ended, and how much processor time the processes got and asked for. tests/waiting.py is the same for
//! tests in Python.
//!
//! - [`until`], [`some`], [`received`], [`ended`]: waits in this process. [`Wait`]: a wait that a test makes itself.
//! - [`Lines`], [`output`]: waits for a child.
//! - [`threads`]: proof that a thread waits, and the priority that it inherits. An assertion that something did *not*
//!   happen follows such a proof, or a later event. It never follows a sleep.

mod children;
mod evidence;
pub mod threads;
mod wait;

pub use children::{Lines, output};
pub use wait::{Finally, NOT_IN_TIME, Thread, Wait, ended, patience, received, some, until};

#[cfg(test)]
mod tests;
