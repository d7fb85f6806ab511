//! Tests of `svg`.

use super::*;

#[test]
fn a_line_is_drawn_once_and_the_last_screen_stays_without_motion() {
    let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
    let frames = Frames {
        screens: vec![rows(&["$ a", ""]), rows(&["$ a", "b < c"]), rows(&["d", "$ a"])],
        transcript: rows(&["$ a", "b < c"]),
    };
    let text = draw("a", &frames);
    assert_eq!(text.matches("<text id=").count(), 3);
    assert_eq!(text.matches("<use href=\"#l0\"").count(), 3);
    assert!(text.contains(">b &lt; c</text>"));
    assert!(text.contains("<desc>$ a\nb &lt; c</desc>"));
    assert!(text.contains("@media (prefers-reduced-motion: no-preference)"));
    // The whole takes twelve seconds; the second screen stays from 10% to 25%.
    assert!(text.contains("@keyframes s1 { 0% { visibility: hidden; } 10.000% { visibility: visible; } 25.000% { visibility: hidden; } }"));
}
