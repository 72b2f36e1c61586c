//! Tests of whole pages.

use super::{Figure, HeatMap, Histogram, Page, Picture, Plot, Section, Table, Timeline, Tone};

const NAME: &str = "<script>alert(1)</script>\"' onload=x &\u{0}";

/// A page with every kind of block. Each text is hostile.
fn page() -> Page {
    let mut plot = Plot::new(NAME, NAME, NAME);
    plot.line(NAME, [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]).dots(NAME, 4.0, [(1.0, 1.0)]);
    plot.like(NAME).step("", [(0.0, 1.0), (1.0, 2.0)]).mark(NAME, 0.5);
    let mut histogram = Histogram::of(NAME, NAME, NAME, &[1.0, 2.0, f64::INFINITY]);
    histogram.mark(NAME, 1.5);
    let kinds = [(NAME, Tone::Good), (NAME, Tone::Series(9))];
    let mut timeline = Timeline::new(NAME, NAME, (0.0, 10.0), &kinds);
    timeline.row(NAME, [(0.0, 4.0, 0), (3.0, 3.0, 1), (f64::NAN, 1.0, 0), (1.0, 2.0, 7)]);
    let unit = (0.0, 1.0);
    let map =
        HeatMap::new(NAME, [NAME; 2], unit, unit, 2, vec![0.0, 1.0, 2.0, f32::NAN]).logarithmic();
    let bins = Histogram::of_bins(NAME, NAME, NAME, &[(0.0, 1.0, 3), (1.0, 2.0, 0)]);
    let mut table = Table::new(&[NAME, NAME]).keys();
    table.row(&[NAME]).row(&[NAME, NAME, NAME]);
    let mut section = Section::new(NAME);
    section.heading(NAME, NAME).text(NAME).list(&[NAME]).table(&table).details(NAME, NAME);
    section.figure(&plot, NAME).figure(&histogram, "").figure(&timeline, NAME).figure(&bins, "");
    section.pair([(Figure::from(&map), NAME.to_owned())]).shares(NAME, &[(NAME, 3), (NAME, 0)]);
    let picture = Picture::of(2, 1, &[0, 1, 2, 3, 4, 5]).unwrap();
    section.pictures(NAME, [(picture, NAME.to_owned())]);
    let mut page = Page::new(NAME);
    page.about(NAME).passed(NAME).failed(NAME, &[NAME]).tile(NAME, NAME);
    for _ in 0..5 {
        page.add(section.clone());
    }
    page
}

/// Tags of a text as a parser of HTML sees them: quotes hide the brackets in attributes.
fn tags(html: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut open = None::<String>;
    let mut quoted = false;
    for c in html.chars() {
        match (&mut open, c) {
            (None, '<') => open = Some(String::new()),
            (None, _) => {}
            (Some(tag), '>') if !quoted => {
                tags.push(std::mem::take(tag));
                open = None;
            }
            (Some(tag), _) => {
                quoted ^= c == '"';
                tag.push(c);
            }
        }
    }
    assert!(open.is_none() && !quoted);
    tags
}

#[test]
fn hostile_names_stay_text() {
    let html = page().html();
    assert!(!html.contains("<script"));
    let style = html.find("<style>").unwrap()..html.find("</style>").unwrap();
    let outside = html[..style.start].to_owned() + &html[style.end..];
    let tags = tags(&outside);
    assert!(tags.len() > 300);
    for tag in &tags {
        let bare: String = tag.split('"').step_by(2).collect();
        assert!(!bare.contains("onload") && !bare.contains("alert"), "{tag}");
    }
    assert!(!html.contains('\0'));
}

#[test]
fn every_element_is_closed_in_order() {
    let html = page().html();
    let after = &html[html.find("</style>").unwrap()..];
    let mut open = vec!["html".to_owned(), "head".into(), "style".into()];
    for tag in tags(after) {
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap().to_owned();
        if let Some(rest) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(rest));
        } else if !tag.ends_with('/') && name != "img" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(page().html(), page().html());
}

#[test]
fn nothing_is_fetched() {
    let html = page().html();
    assert!(!html.contains("http:") && !html.contains("https:") && !html.contains("url("));
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn a_report_of_much_data_is_small() {
    let noise = |at: u64| (at.wrapping_mul(6_364_136_223_846_793_005) >> 40) as f64;
    let mut plot = Plot::new("a million points", "x", "y");
    plot.line("noise", (0..1_000_000).map(|at| (at as f64, noise(at))));
    let mut timeline =
        Timeline::new("spans", "x", (0.0, 1e6), &[("a", Tone::Good), ("b", Tone::Bad)]);
    for row in 0..300 {
        let spans = (0..3000).map(|at| (at as f64 * 333.0, at as f64 * 333.0, at % 2));
        timeline.row(&format!("row {row}"), spans);
    }
    let mut table = Table::new(&["at"]);
    (0..100_000).for_each(|at| {
        table.row(&[at.to_string()]);
    });
    let picture = Picture::of(3000, 2000, &vec![7; 3000 * 2000 * 3]).unwrap();
    let map = HeatMap::new("map", ["x", "y"], (0.0, 1.0), (0.0, 1.0), 3000, vec![1.0; 9_000_000]);
    let mut section = Section::new("much");
    section.figure(&plot, "").figure(&timeline, "").table(&table).figure(&map, "");
    section.pictures("large", [(picture, String::new())]);
    let mut page = Page::new("much");
    page.add(section);
    let html = page.html();
    // Four points in each of 1000 columns, 200 rows of at most 1000 spans.
    assert!(html.len() < 12_000_000, "{}", html.len());
    assert!(html.contains("99500 more rows are left out."), "table");
    assert!(html.contains("100 more rows are left out."), "timeline");
}

#[test]
fn a_short_bad_span_is_not_hidden_by_a_good_one() {
    let mut timeline =
        Timeline::new("", "", (0.0, 1000.0), &[("good", Tone::Good), ("bad", Tone::Bad)]);
    timeline.row("", [(500.2, 500.3, 1), (0.0, 1000.0, 0)]);
    let html = Figure::from(&timeline).html().to_owned();
    assert!(html.contains("<rect class=\"bad\" x=500 y=2 width=1 height=16 />"), "{html}");
    assert_eq!(html.matches("<rect class=\"good\"").count(), 2);
}

#[test]
fn a_histogram_counts_every_finite_value() {
    let values: Vec<f64> = (0..1000).map(|at| f64::from(at % 10)).chain([f64::NAN, 1e9]).collect();
    let histogram = Histogram::of("", "", "", &values);
    let html = Figure::from(&histogram).html().to_owned();
    assert!(html.matches("<rect").count() >= 10);
    // The outlier shares the last bar instead of squeezing the others into one.
    assert!(Figure::from(&Histogram::of("", "", "", &[])).html().contains("class=frame"));
    let same = Figure::from(&Histogram::of("", "", "", &[5.0; 9])).html().to_owned();
    assert_eq!(same.matches("<rect").count(), 1);
}

#[test]
fn a_picture_has_the_size_of_its_bytes() {
    assert!(Picture::of(2, 2, &[0; 11]).is_none());
    assert!(Picture::of(0, 2, &[]).is_none());
    assert!(Picture::of(usize::MAX, 2, &[]).is_none());
    let img = Picture::of(961, 480, &vec![9; 961 * 480 * 3]).unwrap().img("wide");
    assert!(img.contains("width=321 height=160"), "{}", &img[..80]);
}
