use super::*;

fn made(text: &str) -> Result<String, String> {
    page_of(text.as_bytes()).map(|page| page.html())
}

#[test]
fn a_report_has_what_the_program_wrote() {
    let html = made(
        r#"{"robocache_report": 1, "title": "Training <1>", "passed": "All equal.", "tiles": [["3", "runs"]],
            "sections": [{"title": "Loss", "blocks": [{"text": "It falls."},
            {"table": {"head": ["run", "loss"], "texts": 1, "rows": [["a", "0.5"]]}},
            {"plot": {"title": "loss", "x": "step", "y": "loss", "caption": "Of a run",
            "curves": [{"name": "a", "points": [[0, 1.0], [1, null], [2, 0.5]]}]}}]}]}"#,
    );
    let html = html.unwrap();
    for expected in ["Training &lt;1&gt;", "All equal.", "It falls.", "Of a run", "0.5"] {
        assert!(html.contains(expected), "{expected}");
    }
}

#[test]
fn another_format_is_an_error_that_says_what_was_expected() {
    let wrong = made(r#"{"robocache_report": 2, "title": "", "sections": []}"#).unwrap_err();
    assert!(wrong.contains("expected version 1, found 2"), "{wrong}");
    let row = r#"{"table": {"head": ["a"], "texts": 0, "rows": [["1", "2"]]}}"#;
    let part = format!(r#"[{{"title": "", "blocks": [{row}]}}]"#);
    let text = format!(r#"{{"robocache_report": 1, "title": "", "sections": {part}}}"#);
    assert!(made(&text).unwrap_err().contains("expected 1 cells, found 2"));
    assert!(made("{").is_err());
}
