//! Waits for children.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::{NOT_IN_TIME, Wait, some};

/// The lines that a child writes.
pub struct Lines(Receiver<String>);

impl Lines {
    /// Reads the standard output of a child from now on.
    ///
    /// # Panics
    /// It is no pipe.
    pub fn of(child: &mut Child) -> Self {
        let (lines, read) = channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        Lines(read)
    }

    /// The next line, if the child has written it.
    ///
    /// # Panics
    /// The child says that an event did not come to it in time.
    #[track_caller]
    pub fn now(&self) -> Option<String> {
        let line = self.0.try_recv().ok()?;
        assert!(!line.starts_with(NOT_IN_TIME), "{line}");
        Some(line)
    }

    /// Waits for the next line; `None` if the child has closed its output.
    ///
    /// # Panics
    /// No line came in time, or the child says that an event did not come to it in time.
    #[track_caller]
    pub fn next(&self, what: &str) -> Option<String> {
        let mut wait = Wait::new(what);
        let line = loop {
            match self.0.recv_timeout(wait.slice()) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Timeout) => wait.check(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        };
        assert!(!line.starts_with(NOT_IN_TIME), "{line}");
        Some(line)
    }
}

/// Waits for the end of a child. Returns its exit status and what it wrote into pipes.
///
/// # Panics
/// It did not end in time. Then it is killed.
#[track_caller]
pub fn output(what: &str, child: Child) -> Output {
    fn read(pipe: Option<impl Read + Send + 'static>) -> impl FnOnce() -> Vec<u8> {
        let reads = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            bytes
        });
        move || reads.join().unwrap()
    }
    let mut child = Killed(child);
    let stdout = read(child.0.stdout.take());
    let stderr = read(child.0.stderr.take());
    let status = some(what, || child.0.try_wait().unwrap());
    Output { status, stdout: stdout(), stderr: stderr() }
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
