//! The key `contract` of a group of commands: the actions that a policy was trained with.

use std::path::Path;

use super::check::Check;
use crate::contract::{Actions, Contract, FILE};
use crate::spec::Interface;

/// Keys of a group that a contract has.
const OF_CONTRACT: [&str; 3] = ["rows", "operators", "relative"];

/// Checks that a group with a contract has no key that the contract has. `given` are those that it has.
pub(super) fn alone(check: &mut Check<'_>, group: &str, given: [bool; 3]) -> Option<()> {
    let mut right = true;
    for (name, given) in OF_CONTRACT.iter().zip(given) {
        if given {
            check.fail(&format!("{group}.{name}"), "no such key beside `contract`, which has it");
            right = false;
        }
    }
    right.then_some(())
}

/// Reads the actions of these joints from the contract in a file or in the folder of a policy.
pub(super) fn actions(
    check: &mut Check<'_>,
    key: &str,
    path: &str,
    joints: &[String],
    interface: Interface,
) -> Option<Actions> {
    let contract = read(check, path);
    let found =
        contract.and_then(|contract| contract.actions_of_joints(Some(joints), Some(interface)));
    match found {
        Ok((_, actions)) => Some(actions),
        Err(why) => {
            let expected =
                "the folder of a policy whose contract has the actions of this group's `joints`";
            check.fail(key, format!("{expected} ({why})"));
            None
        }
    }
}

/// Reads the contract in a file or in the folder of a policy.
pub(super) fn read(check: &mut Check<'_>, path: &str) -> Result<Contract, String> {
    let is_file = Path::new(path).extension().is_some_and(|ending| ending == "json");
    let file = match is_file {
        true => path.to_owned(),
        false => format!("{}/{FILE}", path.trim_end_matches('/')),
    };
    let text = check.read_file(&file)?;
    Contract::of_file(text, &file).map_err(|error| error.to_string())
}
