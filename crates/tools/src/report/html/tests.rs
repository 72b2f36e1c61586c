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
