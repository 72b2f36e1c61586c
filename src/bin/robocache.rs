//! The command line of robocache.
fn main() {}
