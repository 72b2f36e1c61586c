use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A pool whose GPU takes any memory, and how often it was asked to.
fn pool(most: usize) -> (Arc<MessagePool>, Arc<AtomicUsize>) {
    let registered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&registered);
    let pool = MessagePool::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    pool.allow(most, 1 << 20);
    (pool, registered)
}

/// Takes a message of `len` bytes, as the caller of [`MessagePool::take`] does.
fn message(pool: &Arc<MessagePool>, len: usize) -> Option<Arc<TakenMessage>> {
    let buffer = pool.take().filter(|buffer| buffer.len() >= len);
    if buffer.is_none() {
        pool.missed(len);
    }
    buffer.map(|buffer| buffer.into_message(len))
}

/// Messages of `len` bytes at once, after as many as it takes until a GPU reads each where it is.
fn at_once(pool: &Arc<MessagePool>, count: usize, len: usize) -> Vec<Option<Arc<TakenMessage>>> {
    for _ in 0..=count + 1 {
        let held: Vec<_> = (0..count).filter_map(|_| message(pool, len)).collect();
        held.iter().for_each(|message| drop(pool.hold(message)));
        pool.supply();
    }
    (0..count).map(|_| message(pool, len)).collect()
}

#[test]
fn a_held_message_keeps_its_buffer() {
    let (pool, _) = pool(2);
    let messages = at_once(&pool, 2, 100);
    let [Some(first), Some(second)] = &messages[..] else { panic!("expected two buffers") };
    let place = first.as_ptr();
    let held = pool.hold(&first[10..20]).unwrap();
    assert_eq!((held.as_ptr(), held.len()), (first[10..].as_ptr(), 10));
    // The end of one message and the start of another are not one message.
    assert!(pool.hold(&[0; 10]).is_none() && pool.hold(&second[..]).is_some());
    drop(messages);
    let other = pool.take().unwrap();
    assert_ne!(other.as_ptr(), place);
    assert!(pool.take().is_none());
    drop(held);
    assert_eq!(pool.take().unwrap().as_ptr(), place);
    // A message that has gone is found no more.
    let again = pool.take().unwrap();
    assert!(pool.hold(&again[..10]).is_none());
}

#[test]
fn there_are_as_many_buffers_as_messages_at_once_but_no_more_than_allowed() {
    let (pool, registered) = pool(3);
    assert_eq!(at_once(&pool, 2, 100).iter().flatten().count(), 2);
    assert_eq!(registered.load(Ordering::Relaxed), 2);
    assert_eq!(at_once(&pool, 5, 100).iter().flatten().count(), 3);
    assert_eq!(registered.load(Ordering::Relaxed), 3);
}

#[test]
fn an_encoder_that_holds_no_message_gets_one_buffer() {
    let (pool, registered) = pool(3);
    for _ in 0..5 {
        let messages: Vec<_> = (0..3).map(|_| message(&pool, 100)).collect();
        pool.supply();
        drop(messages);
    }
    assert_eq!(registered.load(Ordering::Relaxed), 1);
}

#[test]
fn a_larger_message_makes_larger_buffers_and_the_others_are_freed() {
    let (pool, registered) = pool(2);
    let before = at_once(&pool, 2, 100);
    assert!(message(&pool, 200).is_none());
    drop(before);
    pool.supply();
    let after = at_once(&pool, 2, 200);
    assert_eq!(after.iter().flatten().count(), 2);
    assert_eq!(registered.load(Ordering::Relaxed), 4);
    drop(after);
    // A smaller one fits, and one that is larger than allowed changes nothing.
    assert!(message(&pool, 50).is_some());
    assert!(message(&pool, (1 << 20) + 1).is_none());
    assert!(message(&pool, 200).is_some());
}

#[test]
fn at_the_end_all_buffers_go_the_last_ones_with_their_messages() {
    let (pool, registered) = pool(2);
    let mut messages = at_once(&pool, 2, 100);
    messages.pop();
    let held = pool.hold(messages[0].as_ref().unwrap()).unwrap();
    drop(messages);
    pool.end();
    assert_eq!(held[..], [0; 100]);
    assert_eq!(pool.lock().count, 1);
    drop(held);
    assert_eq!(pool.lock().count, 0);
    assert!(at_once(&pool, 2, 100).iter().flatten().count() == 0 && pool.take().is_none());
    assert_eq!(registered.load(Ordering::Relaxed), 2);
}

#[test]
fn if_a_buffer_cannot_be_registered_no_other_is_made() {
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let pool = MessagePool::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Err(DeviceError::Failed { operation: "register", detail: "a mock".into() })
    });
    pool.allow(3, 1 << 20);
    assert_eq!(at_once(&pool, 2, 100).iter().flatten().count(), 0);
    assert_eq!(tries.load(Ordering::Relaxed), 1);
}
