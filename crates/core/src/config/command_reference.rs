//! The reference of a group of commands: the stream whose values its relative rows are added to.
//!
//! A policy adds rows to what its tensors say. So the tensors must say it in full, and in the same way as in the training.

use super::check::Check;
use super::command_contract;
use crate::contract::{Actions, Contract, ContractError, refused};
use crate::spec::{Config, GroupSpec, StartSpec, StreamId, StreamSpec};

/// Finds the reference of the relative rows of the group at `group`. It is that of a contract, or the stream that commands
/// begin at.
pub(super) fn reference(
    check: &mut Check<'_>,
    group: &str,
    streams: &[StreamSpec],
    of_contract: Option<&Actions>,
    start_from: Option<&StartSpec>,
) -> Option<StreamId> {
    let Some(name) = of_contract.and_then(|actions| actions.reference.as_deref()) else {
        return start_from.map(|start| start.stream);
    };
    let found = streams.iter().position(|stream| stream.name == name);
    if found.is_none() {
        let expected =
            format!("a vector `{name}` among the streams: relative rows are added to its values");
        check.fail(&format!("{group}.contract"), expected);
    }
    found.map(StreamId::new)
}

/// Checks the references of a configuration that is valid otherwise.
pub(super) fn check_references(check: &mut Check<'_>, config: &Config) {
    let groups = config.commands.iter().flat_map(|commands| &commands.groups);
    let relative: Vec<_> = groups.filter(|group| group.reference.is_some()).collect();
    if relative.is_empty() {
        return;
    }
    let served = Contract::of_node(config);
    for group in relative {
        let key = if group.contract.is_some() { "contract" } else { "start_from" };
        if let Err((expected, found)) = check_reference(check, config, &served, group) {
            check.fail_found(&format!("commands.groups.{}.{key}", group.name), expected, found);
        }
    }
}

/// Checks the reference of a group in what is served and in its contract. The error is what was expected, and what was found.
fn check_reference(
    check: &mut Check<'_>,
    config: &Config,
    served: &Contract,
    group: &GroupSpec,
) -> Result<(), (String, String)> {
    let in_full = |contract: &Contract, actions: &Actions| match contract.reference(actions) {
        Err(ContractError::Wrong { expected, found, .. }) => Err((expected, found)),
        Err(other) => Err(("the values of relative joints".to_owned(), other.to_string())),
        Ok(found) => Ok(found),
    };
    in_full(served, &Actions::of_group(config, group))?;
    let Some(path) = &group.contract else { return Ok(()) };
    let expected = "the folder of a policy".to_owned();
    let joints: Vec<_> = group.joints.iter().map(|joint| joint.name.clone()).collect();
    let trained = command_contract::read(check, path).map_err(|why| (expected.clone(), why))?;
    let actions = trained.actions_of_joints(Some(&joints), Some(group.interface));
    let (_, actions) = actions.map_err(|why| (expected, why))?;
    let Some(reference) = in_full(&trained, &actions)? else { return Ok(()) };
    let differences = refused(&trained.differences_in(&reference.stream, served));
    if differences.is_empty() {
        return Ok(());
    }
    let stream = reference.stream;
    let expected = format!("`{stream}` as in the training: relative rows are added to its values");
    Err((expected, differences.join("; ")))
}
