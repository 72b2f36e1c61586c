//! Contracts in files.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::*;

/// A new folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("robocache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("meta")).unwrap();
        Folder(path)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_contract_is_found_where_it_was_written() {
    let folder = Folder::new("contract");
    let made = contract(&camera("cv2_area", "stretch"));
    let error = Contract::load(&folder.0).unwrap_err().to_string();
    assert!(error.contains("expected a contract (robocache.json, a store"), "{error}");
    // A cache, a store and a dataset of this version, and each of an older one, which had no contract.
    folder.write("index.json", &format!("{{\"contract\": {made}}}"));
    folder.write("zarr.json", "{\"attributes\": {\"robocache\": {\"contract\": null}}}");
    folder.write("meta/robocache.json", "{\"format\": 1}");
    assert_eq!(Contract::load(&folder.0).unwrap(), made);
    let about = format!("{{\"contract\": {made}, \"contract_digest\": \"{}\"}}", made.digest());
    folder.write("index.json", "{}");
    folder.write("zarr.json", &format!("{{\"attributes\": {{\"robocache\": {about}}}}}"));
    assert_eq!(Contract::load(&folder.0).unwrap(), made);
    folder.write("zarr.json", "{}");
    folder.write("meta/robocache.json", &about);
    assert_eq!(Contract::load(&folder.0).unwrap(), made);
    let other = contract(&camera("cv2_linear", "stretch"));
    other.save(&folder.0).unwrap();
    assert_eq!(Contract::load(&folder.0).unwrap(), other);
    assert_eq!(Contract::load(&folder.0.join(FILE)).unwrap(), other);
}

#[test]
fn a_file_that_was_changed_is_no_contract() {
    let folder = Folder::new("changed");
    let made = contract(&camera("cv2_area", "stretch"));
    folder.write(FILE, &made.to_file().replace("cv2_area", "cv2_linear"));
    let error = Contract::load(&folder.0).unwrap_err().to_string();
    assert!(error.ends_with("the file was changed"), "{error}");
    folder.write(FILE, "{");
    assert!(Contract::load(&folder.0).unwrap_err().to_string().contains("expected JSON"));
    let nowhere = made.save(&folder.0.join("nowhere")).unwrap_err();
    assert!(matches!(nowhere, ContractError::Read { .. }), "{nowhere}");
}

#[test]
fn many_may_save_at_once() {
    let folder = Folder::new("at-once");
    let made = contract(&camera("cv2_area", "stretch"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| made.save(&folder.0).unwrap()));
        }
    });
    assert_eq!(Contract::load(&folder.0).unwrap(), made);
    let left = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| *name != *"meta").collect::<Vec<_>>(), [FILE]);
}

/// The file of a dataset beside a checkpoint has the columns of the dataset, too.
#[test]
fn accepting_keeps_what_else_a_file_has() {
    let folder = Folder::new("accept");
    let made = contract(&camera("cv2_area", "stretch"));
    let served = contract(&camera("cv2_linear", "stretch"));
    let keys = ["wrist.encoder.resizes[0].filter".to_owned()];
    let about = format!(
        "{{\"contract\": {made}, \"contract_digest\": \"{}\", \"columns\": {{\"action\": 1}}}}",
        made.digest()
    );
    folder.write(FILE, &about);
    for path in [folder.0.clone(), folder.0.join(FILE)] {
        let accepted = Contract::accept(&path, &served, &keys).unwrap();
        assert_eq!(Contract::load(&folder.0).unwrap(), accepted);
        assert_eq!(refusals(&accepted, &served), Vec::<String>::new());
    }
    let text = fs::read_to_string(folder.0.join(FILE)).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["columns"]["action"], 1);
    let wrong = Contract::accept(&folder.0, &served, &["wrist.fit".to_owned()]).unwrap_err();
    assert!(wrong.to_string().contains("found wrist.fit"), "{wrong}");
}

/// Datasets, stores and saved caches keep the contract that they were made by, and the checksum of what says it.
#[test]
fn nothing_is_accepted_but_beside_a_checkpoint() {
    let made = contract(&camera("cv2_area", "stretch"));
    let served = contract(&camera("cv2_linear", "stretch"));
    let keys = ["wrist.encoder.resizes[0].filter".to_owned()];
    for (name, text) in [
        ("meta/robocache.json", format!("{{\"contract\": {made}}}")),
        ("index.json", format!("{{\"contract\": {made}, \"xxh3\": 1}}")),
        ("zarr.json", format!("{{\"attributes\": {{\"robocache\": {{\"contract\": {made}}}}}}}")),
    ] {
        let folder = Folder::new("accept-others");
        folder.write(name, &text);
        assert_eq!(Contract::load(&folder.0).unwrap(), made);
        let mut paths = vec![folder.0.clone()];
        paths.extend((name != "meta/robocache.json").then(|| folder.0.join(name)));
        for path in paths {
            let error = Contract::accept(&path, &served, &keys).unwrap_err().to_string();
            let place = path.display();
            let expected = "expected the folder of a checkpoint: contract.save(...) first";
            assert_eq!(error, format!("{place}: {expected}, found no robocache.json"));
        }
        assert_eq!(fs::read_to_string(folder.0.join(name)).unwrap(), text);
        assert!(!folder.0.join(FILE).exists(), "{name}");
    }
}
