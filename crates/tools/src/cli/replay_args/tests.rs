use clap::{CommandFactory, Parser};
use robocache_data::replay::RequestError;

use super::super::{Cli, Command};
use super::*;

/// The request of these options.
fn request(options: &[&str]) -> Result<ReplayRequest, clap::Error> {
    let words = ["robocache", "replay", "--config=robot.yaml", "--out=out"];
    match Cli::try_parse_from(words.iter().chain(options).chain(&["bag"]))?.command {
        Command::Replay(args) => Ok(args.request()),
        _ => unreachable!("the words are those of replay"),
    }
}

#[test]
fn a_wrong_option_is_named() {
    for (option, expected) in [
        ("--backend=tpu", "'--backend <BACKEND>': expected auto, cpu or cuda, found 'tpu'"),
        ("--images=jpeg:101", "expected zstd, or jpeg:QUALITY from jpeg:1 to jpeg:100, found"),
        ("--jobs=0", "invalid value '0' for '--jobs <JOBS>': 0 is not in 1..=65535"),
        ("--remap=a", "expected FROM:=TO, found 'a'"),
        ("--speed=2", "unexpected argument '--speed' found"),
        ("--device=0,x", "expected a number or all, found 'x'"),
    ] {
        let error = request(&[option]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let excluded = request(&["--start=1", "--episodes=list.csv"]).unwrap_err().to_string();
    assert!(excluded.contains("the argument '--start <START>' cannot be used with"), "{excluded}");
}

#[test]
fn words_fill_a_request() {
    let given = ["--format=rows", "--rate-hz=30", "--remap=a:=b", "--device=1,all", "--bf16=f32"];
    let ReplayRequest { episodes, config, out, format, bf16, no_digest, .. } =
        request(&given).unwrap();
    assert_eq!((config, out), ("robot.yaml".into(), "out".into()));
    assert_eq!((format, bf16, no_digest), (Format::Rows, Some(Bf16::F32), false));
    assert_eq!((episodes.bags, episodes.rate_hz), (vec!["bag".into()], Some(30.0)));
    assert_eq!(episodes.gpus, [AskedGpu::Number(1), AskedGpu::All]);
    assert_eq!((episodes.remaps.len(), episodes.time), (1, AskedClock::Auto));
    // The defaults of the command line are those of a request.
    let asked = request(&[]).unwrap();
    let plain = ReplayRequest::default();
    let plain_episodes = EpisodesRequest { bags: vec!["bag".into()], ..plain.episodes };
    assert_eq!(format!("{:?}", asked.episodes), format!("{plain_episodes:?}"));
    let error = request(&["--bf16=f32"]).unwrap().check().unwrap_err();
    assert!(matches!(error, RequestError::Wrong(_)));
}

#[test]
fn the_common_options_have_not_taken_the_place_of_the_help() {
    let command = Cli::command();
    let about = command.find_subcommand("replay").unwrap().get_about().unwrap().to_string();
    assert!(about.starts_with("Run recorded bags through the pipeline"), "{about}");
}
