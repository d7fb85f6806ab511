//! Tests of `quota`.

use http::HeaderValue;

use super::*;

fn of(headers: &[(&'static str, &'static str)]) -> Vec<UsedWindow> {
    let headers = headers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), HeaderValue::from_static(value))
    });
    let mut windows: Vec<_> = used_windows(&headers.collect()).collect();
    windows.sort();
    windows
}

#[test]
fn windows_are_named_by_their_length() {
    let windows = of(&[
        ("anthropic-ratelimit-unified-5h-utilization", "0.42"),
        ("anthropic-ratelimit-unified-5h-reset", "1795000000"),
        ("anthropic-ratelimit-unified-7d-utilization", "1.0314159"),
    ]);
    assert_eq!(windows, [("5h".to_owned(), 4_200), ("7d".to_owned(), 10_314)]);
    let windows = of(&[
        ("x-codex-primary-used-percent", "87.5"),
        ("x-codex-primary-window-minutes", "300"),
        ("x-codex-secondary-used-percent", "9"),
        ("x-codex-secondary-window-minutes", "10080"),
    ]);
    assert_eq!(windows, [("5h".to_owned(), 8_750), ("7d".to_owned(), 900)]);
    for (minutes, name) in
        [(297, "5h"), (299, "5h"), (303, "5h"), (304, "304m"), (10_079, "7d"), (1, "1m")]
    {
        assert_eq!(length_of(minutes), name);
    }
}

#[test]
fn what_is_no_number_or_has_no_window_is_no_report() {
    for value in ["", "-1", "1e-3", "half", "0x1", "99999999999999999999", ".5"] {
        assert_eq!(of(&[("anthropic-ratelimit-unified-5h-utilization", value)]), [], "{value}");
    }
    assert_eq!(of(&[("x-codex-primary-used-percent", "87")]), []);
    let of_one_model = [
        ("x-codex-mini-primary-used-percent", "87"),
        ("x-codex-mini-primary-window-minutes", "300"),
    ];
    assert_eq!(of(&of_one_model), []);
    assert_eq!(of(&[("x-ratelimit-remaining-tokens", "87")]), []);
}
