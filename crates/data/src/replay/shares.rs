//! A run in shares: several processes replay a part of the bags each, and another one takes their results.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::fcntl::Flock;

use super::results::{Ledger, hold};
use super::{Episode, Summary};
use crate::file::{OutputError, remove};

/// One of several shares of the bags, such as `2/5`. The shares of one number have all bags, each bag once, and
/// follow one another in the order of the bags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    number: usize,
    of: usize,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(number, of)| (number.parse(), of.parse()));
        match numbers {
            Some((Ok(number), Ok(of))) if (1..=of).contains(&number) => {
                Ok(Share { number: number - 1, of })
            }
            _ => Err(format!("expected K/N with K from 1 to N, found '{text}'")),
        }
    }
}

impl Share {
    /// Leaves only the episodes of the bags of this share. `bags` are all bags in their order.
    pub fn keep(self, bags: &[PathBuf], episodes: &mut Vec<Episode>) {
        let Share { number, of } = self;
        let edge = |number: usize| bags.len() * number / of;
        let mine = &bags[edge(number)..edge(number + 1)];
        episodes.retain(|episode| mine.contains(&episode.bag));
    }
}

/// The folders of other runs, whose results this run takes.
pub(super) struct Others {
    folders: Vec<Other>,
}

struct Other {
    out: PathBuf,
    ledger: Ledger,
    /// No other process may write there meanwhile.
    _held: Flock<fs::File>,
}

impl Others {
    /// Opens the folders.
    ///
    /// # Errors
    /// One does not exist or cannot be read, or another run writes into it.
    pub(super) fn open(folders: &[PathBuf]) -> Result<Self, OutputError> {
        let open = |out: &PathBuf| {
            let held = hold(out)?;
            Ok(Other { out: out.clone(), ledger: Ledger::read(out)?, _held: held })
        };
        Ok(Others { folders: folders.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Moves a result to the folder `out` of `ledger`, if another run has completed it from the same things.
    ///
    /// # Errors
    /// It cannot be moved: the folders must be of one file system.
    pub(super) fn take(
        &self,
        result: &str,
        made_of: &str,
        out: &Path,
        ledger: &mut Ledger,
    ) -> Result<Option<Summary>, OutputError> {
        for other in &self.folders {
            let from = other.out.join(result);
            let entry = other.ledger.entry(result).filter(|entry| entry.made_of == made_of);
            let Some(entry) = entry.filter(|_| from.exists()) else { continue };
            // What is there is of something else, and must never have the entry of this.
            let to = out.join(result);
            match to.is_dir() {
                true => remove(&to)?,
                false if to.exists() => fs::remove_file(&to).map_err(OutputError::of(&to))?,
                false => {}
            }
            // An entry without a result is no harm; a result without an entry would belong to no run.
            ledger.add(result.to_owned(), entry.clone())?;
            let moved = to.parent().map_or(Ok(()), fs::create_dir_all);
            if let Err(error) = moved.and_then(|()| fs::rename(&from, &to)) {
                ledger.remove(result)?;
                return Err(OutputError::of(&from)(error));
            }
            return Ok(Some(entry.summary.clone()));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
