//! The wake of a thread that takes messages.

#[rustfmt::skip] // it is formatted in its crate, and its tests are there
#[path = "../../rcl/src/wake.rs"]
#[allow(dead_code, unreachable_pub)] // the models use some of it
mod wake;

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use crate::explore::{PREEMPTIONS, explore};
use crate::sync::{self, Mutex, lock};
use wake::{News, Wake};

/// Three threads and two queues: more preemptions take long.
const FEW: usize = 2;
/// No model waits for so long.
const EVER: Duration = Duration::from_secs(24 * 3600);

/// A thread that waits is woken, if the wake comes before its wait or during it, by whichever thread.
pub fn no_wake_is_lost() {
    explore(PREEMPTIONS, || {
        let wake = Arc::new(Wake::default());
        let done = Arc::new(Mutex::new(0));
        let waker = || {
            let wake = Arc::clone(&wake);
            let done = Arc::clone(&done);
            thread::spawn(move || {
                *lock(&done) += 1;
                wake.wake();
            })
        };
        let wakers = [waker(), waker()];
        while *lock(&done) < 2 {
            assert!(wake.wait(EVER));
        }
        wakers.into_iter().for_each(|waker| waker.join().unwrap());
    });
}

/// A message of either of two subscriptions is taken, if it comes before, during or after a take that finds none.
pub fn no_message_is_forgotten() {
    explore(FEW, || {
        let wake = Arc::new(Wake::default());
        let queues = [(); 2].map(|()| Arc::new((Mutex::new(0), News::new(&wake))));
        let send = |queue: &Arc<(Mutex<u32>, Arc<News>)>| {
            let queue = Arc::clone(queue);
            thread::spawn(move || {
                *lock(&queue.0) += 1;
                queue.1.tell();
            })
        };
        let senders = queues.each_ref().map(send);
        let mut taken = 0;
        while taken < 2 {
            for (queue, news) in queues.iter().map(|queue| &**queue) {
                let take = || {
                    let mut waiting = lock(queue);
                    *waiting = waiting.checked_sub(1)?;
                    Some(())
                };
                taken += u32::from(news.take(take).is_some());
            }
            if taken < 2 && !queues.iter().any(|queue| queue.1.may_wait()) {
                assert!(wake.wait(EVER));
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}
