//! Tests of `licenses`.

use super::*;

#[test]
fn a_license_is_printed_once_with_all_its_crates() {
    let one = |title: &str, texts: &[&str]| Crate {
        title: title.to_owned(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
    };
    let page = page(&[
        one("b 1 (MIT)", &["same"]),
        one("a 1 (MIT)", &["same", "x"]),
        one("c 1 (0BSD)", &[]),
    ]);
    assert_eq!(page.matches("\nsame\n").count(), 1, "{page}");
    assert!(page.contains("b 1 (MIT)\na 1 (MIT)\n"), "{page}");
    assert!(page.contains("  c 1 (0BSD)\n"), "{page}");
}

#[test]
fn crates_of_the_command_are_found_and_those_of_tests_are_not() {
    let text = of_crates(&crate::root::root()).unwrap();
    assert!(text.contains("\nhyper 1."), "{}", text.chars().take(300).collect::<String>());
    assert!(text.contains("Permission is hereby granted"), "no MIT text");
    assert!(!text.contains("\ntrycmd ") && !text.contains("\nendstop-core "));
}
