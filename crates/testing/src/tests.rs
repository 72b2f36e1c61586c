use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::evidence::Facts;
use super::threads::{ThreadNumber, check_inherited, priority_of_holder};
use super::*;

/// The text of the panic of a function.
fn panic_of(act: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(act)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn a_wait_ends_with_its_event() {
    let mut looks = 0;
    until("the third look", || {
        looks += 1;
        looks == 3
    });
    assert_eq!(looks, 3);
    assert_eq!(some("a number", || Some(7)), 7);
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        sender.send(5).unwrap();
        6
    });
    assert_eq!((received("a number", &receiver), ended("the thread", thread)), (5, 6));
    assert_eq!(
        panic_of(|| assert_eq!(received("one more", &receiver), 0)),
        "one more: the sender is gone"
    );
}

#[test]
fn a_wait_in_vain_says_what_it_waited_for_and_what_the_processes_did() {
    let patience = Duration::from_millis(1200);
    let text = panic_of(|| {
        let mut wait = Wait::of("an\nevent", patience);
        (0..10_000).for_each(|_| {
            let look = Instant::now();
            while look.elapsed() < Duration::from_millis(5) {}
            wait.check();
        });
    });
    let (words, facts) = text.split_once(" [").unwrap();
    assert!(words.starts_with("NotInTime: an event: waited 1."), "{text}");
    let facts: Vec<(&str, f64)> = facts
        .trim_end_matches(']')
        .split(' ')
        .map(|fact| fact.split_once('=').unwrap())
        .map(|(name, number)| (name, number.parse().unwrap()))
        .collect();
    let names: Vec<_> = facts.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["began", "ended", "patience", "got_ns", "asked_ns", "stolen_ns"], "{text}");
    let [began, ended, patience, got, asked, _] = facts[..] else { unreachable!() };
    assert!(ended.1 - began.1 >= 1.2 && patience.1 == 1.2, "{text}");
    assert!(got.1 > 0.0 && asked.1 >= got.1, "{text}");
}

#[test]
fn the_facts_are_also_of_children() {
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let _ends = Finally(|| {
        busy.kill().unwrap();
        busy.wait().unwrap();
    });
    let mut facts = Facts::new();
    facts.look();
    until("the child got 50 ms", || {
        let text = facts.text(Duration::ZERO);
        let (_, got) = text.split_once("got_ns=").unwrap();
        got.split(' ').next().unwrap().parse::<u64>().unwrap() > 50_000_000
    });
}

#[test]
fn a_thread_that_waits_is_seen_to_sleep() {
    let number = ThreadNumber::default();
    let lock = Mutex::new(());
    assert!(!number.is_asleep() && number.priority().is_none());
    let held = lock.lock().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            number.is_this();
            drop(lock.lock().unwrap());
        });
        number.until_asleep();
        assert!(!waits.is_finished());
        drop(held);
    });
}

/// The standard library's mutex shows that the check can tell the difference.
#[test]
fn a_holder_of_an_ordinary_mutex_inherits_nothing() {
    let lock = Mutex::new(());
    let hold = |act: &dyn Fn()| {
        let _guard = lock.lock().unwrap();
        act();
    };
    let take = || drop(lock.lock().unwrap());
    let Some(found) = priority_of_holder(take, hold) else { return };
    assert!(found >= 0, "{found}");
    let text = panic_of(|| check_inherited(take, hold));
    assert!(text.contains("the priority of the thread that holds the lock"), "{text}");
}

fn shell(script: &str) -> std::process::Child {
    Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_child_is_read_and_waited_for() {
    let found = output("its end", shell("echo a; exit 3"));
    assert_eq!((found.status.code(), &found.stdout[..]), (Some(3), &b"a\n"[..]));
    let mut child = shell("echo one; echo 'NotInTime: x: waited 9 s [began=1]'");
    let lines = Lines::of(&mut child);
    assert_eq!(lines.next("a line").as_deref(), Some("one"));
    let said = panic_of(|| drop(lines.next("a line")));
    assert_eq!(said, "NotInTime: x: waited 9 s [began=1]");
    assert_eq!(lines.next("the end"), None);
    child.wait().unwrap();
}
