//! Tests of robocache_tools from outside, in one program.

mod calibrate;
mod cli;
mod recording;
mod view;
