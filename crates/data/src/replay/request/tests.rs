use super::*;

fn wrong(request: &ReplayRequest) -> String {
    request.check().unwrap_err().to_string()
}

#[test]
fn values_that_exclude_each_other_are_named() {
    let seconds = || "1".parse().ok();
    let list = || Some(PathBuf::from("list.csv"));
    let by_topic = "/joy:buttons[0]".parse().ok();
    for (episodes, expected) in [
        (
            EpisodesRequest { start: seconds(), list: list(), ..EpisodesRequest::default() },
            "the argument '--start <START>' cannot be used with '--episodes <FILE.csv>'",
        ),
        (
            EpisodesRequest { end: seconds(), by_topic, ..EpisodesRequest::default() },
            "the argument '--episodes-by <TOPIC[:PATH]>' cannot be used with '--end <END>'",
        ),
    ] {
        assert_eq!(wrong(&ReplayRequest { episodes, ..ReplayRequest::default() }), expected);
    }
    let both = EpisodesRequest { start: seconds(), end: seconds(), ..EpisodesRequest::default() };
    assert!(both.check().is_ok());
}

#[test]
fn what_is_written_must_fit_the_format() {
    let of = |format| ReplayRequest { format, ..ReplayRequest::default() };
    let bf16 = |format| ReplayRequest { bf16: Some(Bf16::F32), ..of(format) };
    assert!(wrong(&bf16(Format::Mcap)).starts_with("--bf16: expected --format zarr"));
    assert!(bf16(Format::Mcap).asked().is_err());
    assert!(bf16(Format::Rows).check().is_ok());
    let jpeg = |format| ReplayRequest { images: Images::Jpeg(95), ..of(format) };
    let expected = "--images jpeg:95: expected --format rows, found zarr, which has tensors";
    assert_eq!(wrong(&jpeg(Format::Zarr)), expected);
    assert!(jpeg(Format::Rows).check().is_ok());
    let rows = |format| ReplayRequest { rows: vec!["joints".into()], ..of(format) };
    assert!(wrong(&rows(Format::Rows)).starts_with("--rows: expected --format zarr"));
    assert!(rows(Format::Zarr).check().is_ok());
}

#[test]
fn texts_that_are_no_values_say_what_was_expected() {
    let error = |text: &str| text.parse::<Jobs>().unwrap_err();
    assert_eq!(error("0"), "0 is not in 1..=65535");
    assert_eq!(error("70000"), "70000 is not in 1..=65535");
    assert_eq!(error("many"), "invalid digit found in string");
    assert_eq!("3".parse(), Ok(Jobs(NonZeroU16::new(3).unwrap())));
    let error = "x".parse::<AskedGpu>().unwrap_err();
    assert_eq!(error, "expected a number or all, found 'x'");
    assert_eq!("all".parse(), Ok(AskedGpu::All));
    let error = "csv".parse::<Format>().unwrap_err();
    assert_eq!(error, "expected mcap, zarr or rows, found 'csv'");
    assert_eq!("f64".parse::<Bf16>().unwrap_err(), "expected uint16 or f32, found 'f64'");
}

#[test]
fn a_dataset_has_its_own_episodes() {
    let start = "1".parse().ok();
    let episodes = EpisodesRequest { start, ..EpisodesRequest::default() };
    let request = ReplayRequest { episodes, ..ReplayRequest::default() };
    let error = request.asked_of(Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("expected neither --start, --end"), "{error}");
    let given = ["one", "two", "three"].map(|bag| Episode {
        bag: bag.into(),
        name: bag.into(),
        ..Episode::default()
    });
    let share = "2/3".parse().ok();
    let request = ReplayRequest { share, ..ReplayRequest::default() };
    let (of_share, options) = request.asked_of(given.to_vec()).unwrap();
    assert_eq!(of_share, given[1..2]);
    assert_eq!((options.jobs, options.devices, options.digest), (1, vec![0], true));
}
