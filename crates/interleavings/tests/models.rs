//! Runs the models.

use robocache_interleavings::runtime::{outbox, queue};
use robocache_interleavings::{clock, recording, waking};

#[test]
fn the_newest_tensor_is_always_published() {
    outbox::the_newest_tensor_is_always_published();
}

#[test]
fn a_closed_outbox_ends_the_publishing_thread() {
    outbox::a_closed_outbox_ends_the_publishing_thread();
}

#[test]
fn no_message_of_one_lane_or_two_is_forgotten() {
    queue::no_message_of_one_lane_or_two_is_forgotten();
}

#[test]
fn messages_that_are_put_back_are_encoded() {
    queue::messages_that_are_put_back_are_encoded();
}

#[test]
fn a_jump_begins_one_epoch_for_all_threads() {
    clock::a_jump_begins_one_epoch_for_all_threads();
}

#[test]
fn an_old_reading_does_not_make_the_new_epoch_jump() {
    clock::an_old_reading_does_not_make_the_new_epoch_jump();
}

#[test]
fn an_arrival_has_the_beginning_of_its_own_epoch() {
    clock::an_arrival_has_the_beginning_of_its_own_epoch();
}

#[test]
fn no_wake_is_lost() {
    waking::no_wake_is_lost();
}

#[test]
fn no_message_is_forgotten() {
    waking::no_message_is_forgotten();
}

#[test]
fn each_message_is_written_or_lost() {
    recording::each_message_is_written_or_lost();
}

#[test]
fn events_come_while_messages_are_lost() {
    recording::events_come_while_messages_are_lost();
}

#[test]
fn what_is_lost_is_counted_once() {
    recording::what_is_lost_is_counted_once();
}
