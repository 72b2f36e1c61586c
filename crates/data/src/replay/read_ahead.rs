//! Reads the messages of a bag on a thread of its own, some ahead of the one that takes them.

use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;

use crate::bag::{Messages, Problems, Recorded};
use robocache_ops::time::Stamp;

/// A batch has at most this many messages, and is sent when it has this many bytes.
const MESSAGES: usize = 64;
const BYTES: usize = 2 << 20;
/// Batches that may wait.
const BATCHES: usize = 2;

/// Hands the messages up to `end` to `take` in their order, until it returns false or an error. Each is handed to `begin`
/// before, up to `ahead` bytes of messages, and `take` gets what that returned. Returns what could not be read. Nothing
/// after `end` is looked at, whichever thread is faster.
///
/// If `on_thread`, another thread reads. Otherwise a message is read when it is due: then its chunk is still in the cache of
/// the core that takes it, which matters if all cores have a bag.
///
/// # Errors
/// That of `take`.
pub(super) fn read_ahead<B, E>(
    mut messages: Messages<'_>,
    end: Option<Stamp>,
    on_thread: bool,
    ahead: usize,
    begin: impl Fn(&Recorded) -> B,
    take: impl FnMut(Recorded, B) -> Result<bool, E>,
) -> Result<Problems, E> {
    let within = |recorded: &Recorded| end.is_none_or(|end| recorded.received <= end);
    if !on_thread {
        take_all(messages.by_ref().take_while(within), ahead, begin, take)?;
        return Ok(messages.problems);
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<Vec<Recorded>>(BATCHES);
        let reader = scope.spawn(move || {
            let mut batch = Vec::with_capacity(MESSAGES);
            let mut bytes = 0;
            for recorded in messages.by_ref().take_while(within) {
                bytes += recorded.bytes.len();
                batch.push(recorded);
                if batch.len() == MESSAGES || bytes >= BYTES {
                    let full = std::mem::replace(&mut batch, Vec::with_capacity(MESSAGES));
                    bytes = 0;
                    if sender.send(full).is_err() {
                        // The other side has all that it wants.
                        break;
                    }
                }
            }
            // As before.
            let _ = sender.send(batch);
            messages.problems
        });
        // The receiver goes with the messages, so that the reader ends.
        let taken = take_all(receiver.into_iter().flatten(), ahead, begin, take);
        let problems = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        taken.map(|()| problems)
    })
}

/// Hands messages to `begin`, up to `ahead` bytes of them before they are handed to `take`.
fn take_all<B, E>(
    mut messages: impl Iterator<Item = Recorded>,
    ahead: usize,
    begin: impl Fn(&Recorded) -> B,
    mut take: impl FnMut(Recorded, B) -> Result<bool, E>,
) -> Result<(), E> {
    let mut begun = VecDeque::new();
    let mut bytes = 0;
    loop {
        if (begun.is_empty() || bytes < ahead)
            && let Some(recorded) = messages.next()
        {
            bytes += recorded.bytes.len();
            let of = begin(&recorded);
            begun.push_back((recorded, of));
            continue;
        }
        let Some((recorded, of)) = begun.pop_front() else { return Ok(()) };
        bytes -= recorded.bytes.len();
        if !take(recorded, of)? {
            return Ok(());
        }
    }
}
