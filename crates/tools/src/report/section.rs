//! A section of a page.

use std::fmt::Write;

use super::chart::Figure;
use super::html::escaped;
use super::picture::Picture;
use super::table::Table;

/// A titled part of a page. What is added comes one below the other.
#[derive(Clone, Debug)]
pub struct Section {
    title: String,
    body: String,
}

impl Section {
    /// An empty section.
    pub fn new(title: &str) -> Self {
        Section { title: title.to_owned(), body: String::new() }
    }

    /// Gives the section another title.
    pub fn titled(self, title: &str) -> Self {
        Section { title: title.to_owned(), ..self }
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// A heading within the section, with a remark in small letters (`""`: none).
    pub fn heading(&mut self, text: &str, remark: &str) -> &mut Self {
        let _ = write!(self.body, "<h3>{}", escaped(text));
        if !remark.is_empty() {
            let _ = write!(self.body, " <small>{}</small>", escaped(remark));
        }
        self.body.push_str("</h3>");
        self
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let _ = write!(self.body, "<p>{}</p>", escaped(text));
        self
    }

    /// A list of short texts.
    pub fn list(&mut self, items: &[impl AsRef<str>]) -> &mut Self {
        let items = items.iter().map(|item| format!("<li>{}</li>", escaped(item.as_ref())));
        let _ = write!(self.body, "<ul>{}</ul>", items.collect::<String>());
        self
    }

    /// A table. If the page is too narrow for it, it scrolls by itself.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        table.write(&mut self.body);
        self
    }

    /// A chart with a caption (`""`: none).
    pub fn figure(&mut self, figure: impl Into<Figure>, caption: &str) -> &mut Self {
        write_figure(&mut self.body, &figure.into(), caption);
        self
    }

    /// Charts side by side where the page is wide enough, each with its caption.
    pub fn pair(&mut self, figures: impl IntoIterator<Item = (Figure, String)>) -> &mut Self {
        self.body.push_str("<div class=pair>");
        for (figure, caption) in figures {
            write_figure(&mut self.body, &figure, &caption);
        }
        self.body.push_str("</div>");
        self
    }

    /// Pictures side by side, each with its caption. `name` says to a screen reader what they show.
    pub fn pictures(
        &mut self,
        name: &str,
        pictures: impl IntoIterator<Item = (Picture, String)>,
    ) -> &mut Self {
        self.body.push_str("<div class=strip>");
        for (picture, caption) in pictures {
            let image = picture.img(&format!("{name}, {caption}"));
            let caption = escaped(&caption);
            let _ = write!(self.body, "<figure>{image}<figcaption>{caption}</figcaption></figure>");
        }
        self.body.push_str("</div>");
        self
    }

    /// A bar that shows how a whole is divided: (name, size) of each part.
    pub fn shares(&mut self, whole: &str, parts: &[(impl AsRef<str>, u64)]) -> &mut Self {
        let sum = parts.iter().map(|(_, size)| *size).sum::<u64>().max(1) as f64;
        let label = escaped(whole);
        let _ = write!(self.body, "<div class=shares role=img aria-label=\"{label}\">");
        for (at, (name, size)) in parts.iter().enumerate() {
            // So that the smallest part can be seen.
            let share = (*size as f64 / sum).max(0.006);
            let colour = at % super::chart::COLOURS;
            let name = escaped(name.as_ref());
            let _ = write!(
                self.body,
                "<i class=\"b{colour}\" style=\"flex:{share:.4}\" title=\"{name}: {size}\"></i>"
            );
        }
        self.body.push_str("</div>");
        self
    }

    /// A long text, such as a configuration, behind a line that opens it.
    pub fn details(&mut self, summary: &str, text: &str) -> &mut Self {
        let summary = escaped(summary);
        let text = escaped(text);
        let _ = write!(
            self.body,
            "<details><summary>{summary}</summary><pre tabindex=0>{text}</pre></details>"
        );
        self
    }

    /// Writes the section, the page's `at`-th.
    pub(super) fn write(&self, at: usize, out: &mut String) {
        let title = escaped(&self.title);
        let body = &self.body;
        let _ = writeln!(
            out,
            "<section id=s{at} aria-labelledby=t{at}><h2 id=t{at}>{title}</h2>{body}</section>"
        );
    }
}

/// Writes a chart and its caption.
fn write_figure(out: &mut String, figure: &Figure, caption: &str) {
    let _ = write!(out, "<figure class=chart>{}", figure.html());
    if !caption.is_empty() {
        let _ = write!(out, "<figcaption>{}</figcaption>", escaped(caption));
    }
    out.push_str("</figure>");
}
