//! Tests of `output`.

use super::HeadAndTail;

fn kept(limit: usize, pieces: &[&[u8]]) -> String {
    let mut output = HeadAndTail::new(limit);
    pieces.iter().for_each(|piece| output.push(piece));
    output.into_text()
}

#[test]
fn all_is_kept_up_to_twice_the_limit() {
    assert_eq!(kept(4, &[b"abc", b"defgh"]), "abcdefgh");
    assert_eq!(kept(4, &[]), "");
    assert_eq!(kept(4, &["aé".as_bytes(), "éb".as_bytes()]), "aééb");
}

#[test]
fn beyond_it_the_middle_is_left_out_and_counted() {
    assert_eq!(kept(2, &[b"abcdefgh"]), "ab\n[4 bytes left out]\ngh");
    assert_eq!(kept(2, &[b"a", b"b", b"c", b"d", b"e"]), "ab\n[1 bytes left out]\nde");
}

#[test]
fn no_character_is_cut_in_two() {
    let text = kept(3, &["aéé0123éé".as_bytes()]);
    assert!(!text.contains('\u{fffd}'), "{text}");
    assert!(text.starts_with("aé\n[") && text.ends_with("\né"), "{text}");
}
