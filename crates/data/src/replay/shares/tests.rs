use super::*;

fn shares(of: usize, bags: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let share = |number| {
        let episode = |bag: &PathBuf| Episode { bag: bag.clone(), ..Episode::default() };
        let mut episodes: Vec<_> = bags.iter().map(episode).collect();
        Share { number, of }.keep(bags, &mut episodes);
        episodes.into_iter().map(|episode| episode.bag).collect()
    };
    (0..of).map(share).collect()
}

#[test]
fn shares_have_each_bag_once_in_order() {
    let bags: Vec<_> = (0..7).map(|number| PathBuf::from(format!("bag{number}"))).collect();
    for of in [1, 2, 3, 7, 9] {
        let shares = shares(of, &bags);
        assert_eq!(shares.concat(), bags);
        let sizes = shares.iter().map(Vec::len);
        assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1, "{of}");
    }
}

#[test]
fn a_share_is_a_number_of_a_number() {
    assert_eq!("2/5".parse(), Ok(Share { number: 1, of: 5 }));
    for wrong in ["", "2", "0/5", "6/5", "1/0", "-1/2", "a/b"] {
        let error = wrong.parse::<Share>().unwrap_err();
        assert!(error.contains("K/N") && error.contains(wrong), "{error}");
    }
}

#[test]
fn a_folder_that_does_not_exist_is_an_error() {
    let here = tempfile::tempdir().unwrap();
    let missing = here.path().join("part");
    let error = Others::open(&[here.path().to_owned(), missing.clone()]).err().unwrap();
    assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
}
