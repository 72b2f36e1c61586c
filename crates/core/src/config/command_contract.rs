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
    (joints, interface): (&[String], Interface),
) -> Option<Actions> {
    let is_file = Path::new(path).extension().is_some_and(|ending| ending == "json");
    let file = match is_file {
        true => path.to_owned(),
        false => format!("{}/{FILE}", path.trim_end_matches('/')),
    };
    let text = check.read_file(&file).map(str::to_owned);
    let found = text.and_then(|text| {
        let contract = Contract::of_file(&text, &file).map_err(|error| error.to_string())?;
        let all = contract.actions().map_err(|error| error.to_string())?;
        of_joints(all, joints, interface)
    });
    match found {
        Ok(actions) => Some(actions),
        Err(why) => {
            let expected =
                "the folder of a policy whose contract has the actions of this group's `joints`";
            check.fail(key, format!("{expected} ({why})"));
            None
        }
    }
}

/// The actions of exactly these joints, in this order.
fn of_joints(
    all: Vec<Actions>,
    joints: &[String],
    interface: Interface,
) -> Result<Actions, String> {
    if all.is_empty() {
        return Err("it has no actions: cache.contract(config, actions=...) writes them".to_owned());
    }
    let quantity = interface.name();
    let wanted: Vec<_> = joints.iter().map(|joint| format!("{joint}.{quantity}")).collect();
    let mut known = Vec::new();
    let mut matching = Vec::new();
    for actions in all {
        match actions.joints() {
            Ok((own, of)) if own == joints && of == interface => matching.push(actions),
            Ok(_) => known.push(format!("`{}` with {}", actions.stream, actions.names.join(", "))),
            Err(why) => known.push(why),
        }
    }
    match matching.len() {
        1 => Ok(matching.remove(0)),
        0 => Err(format!(
            "the group has {}; the contract has {}",
            wanted.join(", "),
            known.join("; ")
        )),
        _ => {
            let streams: Vec<_> = matching.iter().map(|of| of.stream.as_str()).collect();
            Err(format!("{} have the same joints", streams.join(" and ")))
        }
    }
}
