//! Tests of `text`.

use super::*;

#[test]
fn nothing_that_a_terminal_obeys_is_left() {
    let text = "a\nb\tc\r\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{200b}\u{e0041}\u{2028}é 日";
    assert_eq!(
        clean(text),
        "a\\nb\\tc\\r\\u{1b}[31m\\u{9b}2J\\u{7f}\\u{202e}\\u{200b}\\u{e0041}\\u{2028}é 日"
    );
    for code in 0..0x11_0000u32 {
        let Some(character) = char::from_u32(code) else { continue };
        assert!(!clean(&character.to_string()).chars().any(char::is_control), "{code:x}");
    }
}

#[test]
fn lines_stay_and_nothing_else_that_a_terminal_obeys() {
    let text = "one\r\n\ttwo\r\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}x\u{2066}y\u{200e}\u{2028}\u{8}é 👩\u{200d}🔬";
    assert_eq!(
        clean_lines(text),
        "one\n\ttwo\\r\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{9b}31m\\u{202e}x\\u{2066}y\\u{200e}\\u{2028}\\u{8}é 👩\u{200d}🔬"
    );
    for code in 0..0x11_0000u32 {
        let Some(character) = char::from_u32(code) else { continue };
        let shown = clean_lines(&character.to_string());
        let is_left = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        assert!(!shown.chars().any(is_left), "{code:x}");
    }
}
