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

/// Whether a character changes the direction of the text after it.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_place() {
        let text = "<script>alert('x')</script> \" onload=\"y\" & \u{0}\u{202e}";
        let safe = escaped(text);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{0}', '\u{202e}']), "{safe}");
        assert!(safe.starts_with("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &quot;"));
        assert_eq!(escaped("a &amp; b\n\tc"), "a &amp;amp; b\n\tc");
    }

    #[test]
    fn a_text_beyond_measure_is_cut() {
        let long = "\u{e4}".repeat(MAX_TEXT + 5);
        let cut = escaped(&long);
        assert!(cut.ends_with("\u{e4} \u{2026} (cut here)"));
        assert_eq!(escaped(&long[..2 * MAX_TEXT]), &long[..2 * MAX_TEXT]);
    }
}
