//! Tests of `plan_window`.

use http::HeaderValue;

use super::*;

fn read(headers: &[(&'static str, &'static str)]) -> Vec<PlanWindow> {
    let headers = headers.iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), HeaderValue::from_static(value))
    });
    PlanWindow::of_headers(&headers.collect())
}

fn of(headers: &[(&'static str, &'static str)]) -> Vec<(String, u64)> {
    let windows = read(headers).into_iter().map(|window| (window.name, window.used));
    let mut windows: Vec<_> = windows.collect();
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

#[test]
fn a_reset_is_a_time_or_the_seconds_until_then() {
    let resets = |headers: &[(&'static str, &'static str)]| read(headers)[0].resets;
    let unified = ("anthropic-ratelimit-unified-5h-utilization", "0.42");
    assert_eq!(resets(&[unified]), None);
    let at = Some(PlanReset::AtSecond(1_795_000_000));
    assert_eq!(resets(&[unified, ("anthropic-ratelimit-unified-5h-reset", "1795000000")]), at);
    for no_time in ["0", "soon", "-5", "2026-11-30T12:00:00Z"] {
        assert_eq!(resets(&[unified, ("anthropic-ratelimit-unified-5h-reset", no_time)]), None);
    }
    let codex = [("x-codex-primary-used-percent", "9"), ("x-codex-primary-window-minutes", "300")];
    let after = ("x-codex-primary-reset-after-seconds", "600");
    assert_eq!(resets(&[codex[0], codex[1], after]), Some(PlanReset::AfterSeconds(600)));
    let both = [codex[0], codex[1], after, ("x-codex-primary-reset-at", "1795000000")];
    assert_eq!(resets(&both), at);
    assert_eq!(PlanReset::AfterSeconds(600).at(5), 600_005);
    assert_eq!(PlanReset::AtSecond(600).at(5), 600_000);
}

#[test]
fn an_event_of_codex_reports_the_windows_of_the_plan() {
    let event = |more: &str| {
        PlanWindow::of_event(&format!(
            r#"{{"type":"codex.rate_limits","plan_type":"pro"{more},"rate_limits":{{"allowed":true,
            "primary":{{"used_percent":40.25,"window_minutes":300,"reset_at":1795000000}},
            "secondary":{{"used_percent":5,"window_minutes":10080,"reset_after_seconds":60}}}}}}"#
        ))
    };
    let window =
        |name: &str, used, resets| PlanWindow { name: name.to_owned(), used, resets: Some(resets) };
    let expected = [
        window("5h", 4_025, PlanReset::AtSecond(1_795_000_000)),
        window("7d", 500, PlanReset::AfterSeconds(60)),
    ];
    for more in ["", r#","metered_limit_name":"codex""#, r#","metered_limit_name":null"#] {
        assert_eq!(event(more), expected);
    }
    assert_eq!(event(r#","metered_limit_name":"codex_spark""#), []);
    for nothing in ["", "{}", r#"{"rate_limits":{"primary":null}}"#, r#"{"rate_limits":[1]}"#] {
        assert_eq!(PlanWindow::of_event(nothing), []);
    }
}
