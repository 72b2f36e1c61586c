//! Text as HTML.

/// The longest text that one place of a report shows \[characters\].
const MAX_TEXT: usize = 20_000;

/// A text in HTML, between tags or in a quoted attribute. Characters that HTML forbids become U+FFFD. A text
/// beyond every measure is cut, and that is said.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for (at, c) in text.chars().enumerate() {
        if at == MAX_TEXT {
            out.push_str(" \u{2026} (cut here)");
            break;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Direction marks could make a name look like another one.
            c if c.is_control() || is_direction(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// True if a character changes the direction of the text after it.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests;
