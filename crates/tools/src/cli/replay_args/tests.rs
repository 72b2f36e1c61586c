use clap::CommandFactory;

use super::*;

fn words(options: &[&str]) -> Vec<OsString> {
    ["--config=robot.yaml", "--out=out"]
        .iter()
        .chain(options)
        .chain(&["bag"])
        .map(Into::into)
        .collect()
}

#[test]
fn a_wrong_option_is_named_in_one_line() {
    for (option, expected) in [
        ("--backend=tpu", "--backend: expected auto, cpu or cuda, found 'tpu'"),
        ("--bf16=f64", "--bf16: expected uint16 or f32, found 'f64'"),
        ("--images=jpeg:101", "--images: expected zstd, or jpeg:QUALITY from jpeg:1 to jpeg:100"),
        ("--jobs=0", "--jobs: 0 is not in 1..=65535: '0'"),
        ("--remap=a", "--remap: expected FROM:=TO, found 'a'"),
        ("--speed=2", "unexpected argument '--speed' found"),
    ] {
        let error = ReplayArgs::parse(words(&[option])).err().unwrap().to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
    let args = ReplayArgs::parse(words(&["--bf16=f32"])).unwrap();
    assert!(args.check().unwrap_err().to_string().starts_with("--bf16: expected --format zarr"));
    assert!(args.asked().is_err());
    assert!(ReplayArgs::parse(words(&["--bf16=f32", "--format=rows"])).unwrap().check().is_ok());
    let jpeg = |format| ReplayArgs::parse(words(&["--images=jpeg:95", format])).unwrap().check();
    let error = jpeg("--format=zarr").unwrap_err().to_string();
    assert_eq!(error, "--images jpeg:95: expected --format rows, found zarr, which has tensors");
    assert!(jpeg("--format=rows").is_ok());
}

#[test]
fn a_replay_into_memory_takes_the_common_options_alone() {
    let refused = |option: &str| in_memory(words(&[option])).err().unwrap().to_string();
    assert!(refused("--rate-hz=30").contains("--config"));
    let here = tempfile::tempdir().unwrap();
    let bag = here.path().join("bag.mcap");
    std::fs::write(&bag, b"").unwrap();
    let given = ["--rate-hz=30", "--remap=a:=b", "--", bag.to_str().unwrap()].map(OsString::from);
    let (episodes, args) = in_memory(given).unwrap();
    assert_eq!((episodes[0].name.as_str(), args.rate_hz, args.remap.len()), ("bag", Some(30.0), 1));
}

#[test]
fn options_are_offered_with_their_help() {
    let options = offered_options();
    let of = |name: &str| options.iter().find(|option| option.name == name).unwrap();
    let (remap, replace) = (of("--remap"), of("--replace"));
    assert!(remap.repeats && remap.is_common && remap.metavar.as_deref() == Some("FROM:=TO"));
    assert!(!replace.repeats && !replace.is_common && replace.metavar.is_none());
    assert!(of("--bf16").choices == ["uint16", "f32"] && replace.choices.is_empty());
    assert!(!of("--device").repeats, "its values have commas between them");
    assert!(options.iter().all(|option| !option.help.is_empty()));
    // The common options have not taken the place of the command's help.
    let command = super::super::Cli::command();
    let about = command.find_subcommand("replay").unwrap().get_about().unwrap().to_string();
    assert!(about.starts_with("Run recorded bags through the pipeline"), "{about}");
}
