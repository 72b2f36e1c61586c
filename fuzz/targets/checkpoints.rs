//! Files beside a policy: its contract, and what LeRobot writes. The first byte chooses the file.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use super::super::{records, streams};
use robocache_core::config;
use robocache_core::contract::Contract;
use robocache_core::spec::Config;
use robocache_tools::policy::{Checkpoint, compare};

/// The files of a checkpoint, each with a good text.
const FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../checkpoint/config.json")),
    ("policy_preprocessor.json", include_bytes!("../checkpoint/policy_preprocessor.json")),
    ("statistics.safetensors", &[2, 0, 0, 0, 0, 0, 0, 0, b'{', b'}']),
];

struct Subject {
    folder: PathBuf,
    config: Config,
    contract: Contract,
}

static SUBJECT: LazyLock<Subject> = LazyLock::new(|| {
    let folder = records::folder("checkpoint");
    for (name, text) in FILES {
        fs::write(folder.join(name), text).expect("a file");
    }
    let text = include_str!("../streams.yaml");
    let config =
        config::parse_with(text, "streams.yaml", &streams::Types).expect("a configuration");
    let contract = Contract::of(&config);
    Subject { folder, config, contract }
});

pub(crate) fn run(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    match FILES.get(usize::from(*choice)) {
        Some((name, good)) => {
            let path = SUBJECT.folder.join(name);
            fs::write(&path, bytes).expect("a file");
            checkpoint();
            fs::write(&path, good).expect("a file");
        }
        None => drop(std::str::from_utf8(bytes).map(contract)),
    }
}

fn checkpoint() {
    let Ok(checkpoint) = Checkpoint::read(&SUBJECT.folder) else { return };
    let _ = compare(&checkpoint, &SUBJECT.config);
    for input in &checkpoint.inputs {
        let _ = checkpoint.scale_of(input);
    }
}

/// A contract has one text, and does not differ from itself.
fn contract(text: &str) {
    let Ok(contract) = Contract::parse(text) else { return };
    let again = Contract::parse(&contract.to_string()).expect("what was written");
    assert_eq!((again.digest(), again.to_string()), (contract.digest(), contract.to_string()));
    assert_eq!(contract.differences(&again), Vec::new());
    let _ = SUBJECT.contract.differences(&contract);
    let _ = contract.differences(&SUBJECT.contract);
    let _ = contract.only(contract.streams());
}
