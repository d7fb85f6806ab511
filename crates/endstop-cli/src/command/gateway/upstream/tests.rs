//! Tests of `upstream`.

use super::*;

#[test]
fn upstreams_are_one_address_or_one_for_each_interface() {
    assert_eq!(Upstream::parse("sim"), Ok(Upstream::Sim(String::new())));
    assert_eq!(Upstream::parse("sim:loop"), Ok(Upstream::Sim("loop".to_owned())));
    let one = "http://127.0.0.1:8000/v1";
    assert_eq!(Upstream::parse(one), Ok(Upstream::All(one.to_owned())));
    let two = Upstream::parse("openai=http://a/v1, anthropic=http://b").unwrap();
    let each = vec![
        ("OPENAI_BASE_URL", "http://a/v1".to_owned()),
        ("ANTHROPIC_BASE_URL", "http://b".to_owned()),
    ];
    assert_eq!(two, Upstream::Each(each));
}

#[test]
fn what_cannot_be_used_is_told_as_it_was_written() {
    for (text, says) in [
        ("", "empty address"),
        ("simm", "`simm` does not begin with http:// or https://; did you mean `sim`?"),
        ("127.0.0.1:9999", "`127.0.0.1:9999` does not begin with http:// or https://"),
        ("ftp://x", "`ftp://x` does not begin with"),
        ("http://h/v1?x=1", "`http://h/v1?x=1`: it may not have a query"),
        ("http://h:0/v1", "`http://h:0/v1`: its host or port"),
        ("https://me:secret@h/v1", "`\u{2026}@h/v1`: it may not hold a user"),
        ("azure=http://a", "`azure` is none of openai, anthropic, gemini"),
        ("openai=", "`openai=` has no address; is a variable unset?"),
        ("openai=http://a,openai=http://b", "`openai` is given twice"),
        ("openai=http://a,http://b", "`http://b` is not NAME=URL"),
        ("openai=sim", "`sim` stands alone"),
        ("gemini=h:1", "gemini: `h:1` does not begin with"),
    ] {
        let error = Upstream::parse(text).unwrap_err();
        assert!(error.starts_with(says), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let error = Upstream::parse("sim:nope").unwrap_err();
    assert_eq!(error.matches("nope").count(), 1, "{error}");
}
