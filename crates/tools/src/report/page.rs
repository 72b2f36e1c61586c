//! The page: its head, its tiles, its sections.

use std::fmt::Write;

use super::html::escaped;
use super::section::Section;

/// With this many sections the page begins with links to them.
const LINKS_FROM: usize = 4;

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Page {
    title: String,
    about: Vec<String>,
    verdict: String,
    tiles: String,
    sections: Vec<Section>,
}

impl Page {
    /// A page of this title.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), ..Page::default() }
    }

    /// A line below the title: what the report is about.
    pub fn about(&mut self, text: &str) -> &mut Self {
        self.about.push(text.to_owned());
        self
    }

    /// Says in green that all is well.
    pub fn passed(&mut self, text: &str) -> &mut Self {
        let _ = write!(self.verdict, "<p class=\"verdict good\">{}</p>", escaped(text));
        self
    }

    /// Says in red what is not, and lists why.
    pub fn failed(&mut self, text: &str, problems: &[impl AsRef<str>]) -> &mut Self {
        let _ = write!(self.verdict, "<div class=\"verdict bad\">{}", escaped(text));
        if !problems.is_empty() {
            let items = problems.iter().map(|text| format!("<li>{}</li>", escaped(text.as_ref())));
            let _ = write!(self.verdict, "<ul>{}</ul>", items.collect::<String>());
        }
        self.verdict.push_str("</div>");
        self
    }

    /// A number that matters, with what it is.
    pub fn tile(&mut self, value: &str, what: &str) -> &mut Self {
        let value = escaped(value);
        let what = escaped(what);
        let _ = write!(self.tiles, "<li class=tile><b>{value}</b><span>{what}</span></li>");
        self
    }

    /// Adds a section.
    pub fn add(&mut self, section: Section) -> &mut Self {
        self.sections.push(section);
        self
    }

    /// The file.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
             <title>{title}</title><link rel=\"icon\" href=\"data:,\">\n<style>\n{}</style></head>\n\
             <body><main>\n<header><h1>{title}</h1>",
            include_str!("style.css")
        );
        for line in &self.about {
            let _ = write!(out, "<p class=about>{}</p>", escaped(line));
        }
        out.push_str(&self.verdict);
        if self.sections.len() >= LINKS_FROM {
            out.push_str("<nav aria-label=\"Sections\"><ul>");
            for (at, section) in self.sections.iter().enumerate() {
                let _ = write!(out, "<li><a href=\"#s{at}\">{}</a></li>", escaped(section.title()));
            }
            out.push_str("</ul></nav>");
        }
        out.push_str("</header>\n");
        if !self.tiles.is_empty() {
            let _ = writeln!(out, "<ul class=tiles>{}</ul>", self.tiles);
        }
        for (at, section) in self.sections.iter().enumerate() {
            section.write(at, &mut out);
        }
        out.push_str("</main></body></html>\n");
        out
    }
}
