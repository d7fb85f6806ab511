//! Tests of `guard`.

use super::*;

const WAIT: Duration = Duration::from_secs(10);

fn guard(report: &TunnelReport) -> Guard {
    let (_, receiver) = watch::channel(report.clone());
    Guard {
        report: receiver,
        mode: Tunnels::Guarded,
        wait: WAIT,
        said: BTreeSet::new(),
        since: None,
        latest: None,
        attempts: VecDeque::new(),
        patience: WAIT,
        excused: None,
        requests: 0,
        has_ended: false,
    }
}

/// Refusals, in seconds after `begun`.
fn refused(begun: Instant, seconds: impl IntoIterator<Item = u64>) -> TunnelReport {
    let times: Vec<_> = seconds.into_iter().map(|n| begun + Duration::from_secs(n)).collect();
    TunnelReport {
        first_refused: times.first().copied(),
        last_refused: times.into_iter().collect(),
        ..TunnelReport::default()
    }
}

#[test]
fn a_refused_connection_says_who_ends_the_command() {
    let direct = DirectConnections {
        provider: "OpenAI",
        refused: 1,
        tunnelled: 0,
        intercepted: 0,
        untrusted: 0,
    };
    let model_hosts = [("api.openai.com".to_owned(), direct)].into_iter().collect();
    let report = TunnelReport { model_hosts, ..TunnelReport::default() };
    let lines = guard(&report).news(true);
    let text =
        "; Endstop ends the command if it keeps trying for 10s without a call through the gateway";
    assert!(lines[0].ends_with(text), "{lines:?}");
    let lines = guard(&report).news(false);
    assert!(lines[0].ends_with("model calls there would bypass the limits"), "{lines:?}");
}

/// When a command without calls is ended, in seconds after its begin. The guard sees them one after another.
fn end_without_calls(wait: Duration, millis: &[u64]) -> Option<u64> {
    let begun = Instant::now();
    let (sender, receiver) = watch::channel(TunnelReport::default());
    let mut guard = Guard { report: receiver, wait, ..guard(&TunnelReport::default()) };
    let mut due = None;
    for (last, now) in millis.iter().enumerate() {
        let until_now = millis[..=last].iter().map(|at| begun + Duration::from_millis(*at));
        let last_refused = until_now.skip((last + 1).saturating_sub(10)).collect();
        sender.send(TunnelReport { last_refused, ..TunnelReport::default() }).unwrap();
        let now = begun + Duration::from_millis(*now);
        due = guard.due(now, &RunSnapshot::default(), 0, false).map(|due| due.max(now));
        let next = millis.get(last + 1).map(|at| begun + Duration::from_millis(*at));
        if due.is_some_and(|due| next.is_none_or(|next| due <= next)) {
            break;
        }
    }
    due.map(|due| due.duration_since(begun).as_secs())
}

#[test]
fn a_command_without_any_call_is_ended_if_it_keeps_trying() {
    // The gaps of Claude Code, of Codex and of Gemini CLI.
    assert_eq!(end_without_calls(WAIT, &[0, 600, 1_800, 4_000, 8_600, 17_600]), Some(10));
    assert_eq!(end_without_calls(WAIT, &[0, 200, 600, 1_400, 3_000, 6_200]), Some(10));
    assert_eq!(end_without_calls(WAIT, &[0, 5_000, 15_000]), Some(15));
    // Bursts with long waits between them.
    assert_eq!(end_without_calls(WAIT, &[0, 500, 1_500, 25_000, 25_500, 26_500]), Some(26));
    let often: Vec<u64> = (0..200).map(|n| n * 100).collect();
    assert_eq!(end_without_calls(WAIT, &often), Some(10));
    let two_minutes = Duration::from_secs(120);
    assert_eq!(end_without_calls(two_minutes, &[0, 5_000, 15_000, 35_000, 65_000]), Some(120));
}

#[test]
fn a_burst_of_refusals_that_is_over_is_given_more_time() {
    assert_eq!(end_without_calls(WAIT, &[0, 1_000, 2_000]), Some(30));
    assert_eq!(end_without_calls(WAIT, &[0, 100, 1_500, 4_900]), Some(30));
}

/// Such as `codex app-server`, and `claude --input-format stream-json`.
#[test]
fn a_command_that_waits_for_its_user_is_not_ended_for_telemetry() {
    assert_eq!(end_without_calls(WAIT, &[]), None);
    assert_eq!(end_without_calls(WAIT, &[0]), None);
    assert_eq!(end_without_calls(WAIT, &[0, 9_000]), None);
    // With quick retries.
    assert_eq!(end_without_calls(WAIT, &[0, 50, 100]), None);
    assert_eq!(end_without_calls(WAIT, &[0, 100, 10_000]), None);
    assert_eq!(end_without_calls(WAIT, &[0, 100, 10_000, 10_100]), None);
    // Now and then, and by a timer.
    assert_eq!(end_without_calls(WAIT, &[0, 100, 60_000, 60_100, 3_600_000]), None);
    let timer: Vec<u64> = (0..50).map(|n| n * 10_010).collect();
    assert_eq!(end_without_calls(WAIT, &timer), None);
    let retried: Vec<u64> = timer.iter().flat_map(|at| [*at, at + 100]).collect();
    assert_eq!(end_without_calls(WAIT, &retried), None);
}

#[test]
fn a_command_is_ended_once_and_the_reason_is_said() {
    let begun = Instant::now();
    let mut guard = guard(&refused(begun, [1, 2, 7]));
    let due = guard.due(begun, &RunSnapshot::default(), 0, false);
    assert_eq!(due, Some(begun + Duration::from_secs(11)));
    let end = guard.end();
    assert!(end.contains("no call came through the gateway for 10s"), "{end}");
    guard.patience = WAIT.saturating_mul(LONG_WAITS);
    assert!(guard.end().contains("no call came through the gateway for 30s"));
    assert!(end.contains("--intercept limits fixed addresses too"), "{end}");
    assert!(end.contains("--allow-direct=HOST lets it pass"), "{end}");
    guard.mode = Tunnels::Intercepted;
    assert!(!guard.end().contains("--intercept"));
    assert_eq!(guard.due(begun, &RunSnapshot::default(), 0, false), None);
}

#[test]
fn a_command_that_was_excused_is_ended_only_for_refusals_after_that() {
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let snapshot = RunSnapshot::default();
    for (waiting, requests, is_excused) in [
        (RunSnapshot { in_flight: 1, ..RunSnapshot::default() }, 0, false),
        (RunSnapshot { paused: Some(vec![]), ..RunSnapshot::default() }, 0, false),
        (RunSnapshot { pause: Some("by me".to_owned()), ..RunSnapshot::default() }, 0, false),
        (RunSnapshot::default(), 1, false),
        (RunSnapshot::default(), 0, true),
    ] {
        let mut before = guard(&refused(begun, [1, 2, 20]));
        assert_eq!(before.due(at(25), &waiting, requests, is_excused), None);
        assert_eq!(before.due(at(99), &snapshot, requests, false), None);
        let mut after = guard(&refused(begun, [1, 20, 40, 42, 46]));
        assert_eq!(after.due(at(25), &waiting, requests, is_excused), None);
        let due = after.due(at(46), &snapshot, requests, false);
        assert_eq!(due, Some(at(50)).filter(|_| requests == 0));
    }
}

#[test]
fn telemetry_beside_calls_ends_nothing_and_trying_again_and_again_does() {
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let snapshot = RunSnapshot { calls: 1, last_call: Some(at(5)), ..RunSnapshot::default() };
    // One, few, those before the last call, those of a timer, and a burst that is over.
    for seconds in [
        vec![9],
        (6..15).collect(),
        (0..10).collect(),
        (1..11).map(|n| n * 10).collect(),
        (6..16).collect(),
    ] {
        let due = guard(&refused(begun, seconds.clone())).due(at(99), &snapshot, 0, false);
        assert_eq!(due, None, "{seconds:?}");
    }
    let mut guard = guard(&refused(begun, (6..30).step_by(2)));
    assert_eq!(guard.due(at(28), &snapshot, 0, false), Some(at(6 + 30)));
    assert!(guard.end().contains("no call came through the gateway for 30s"));
}

#[test]
fn a_second_burst_long_after_the_first_begins_anew() {
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let snapshot = RunSnapshot { calls: 1, last_call: Some(at(5)), ..RunSnapshot::default() };
    let (sender, receiver) = watch::channel(refused(begun, 6..16));
    let mut guard = Guard { report: receiver, ..guard(&TunnelReport::default()) };
    assert_eq!(guard.due(at(16), &snapshot, 0, false), None);
    sender.send(refused(begun, 300..310)).unwrap();
    assert_eq!(guard.due(at(310), &snapshot, 0, false), None);
}

#[test]
fn entries_that_take_model_hosts_out_are_found() {
    for entry in ["*", "api.openai.com", ".openai.com", "*.googleapis.com", "COM", "amazonaws.com"]
    {
        assert_eq!(exempting_entry(&format!("127.0.0.1, {entry}")), Some(entry));
    }
    for entries in [
        "",
        "127.0.0.1,localhost,::1",
        "corp.example,.internal",
        "openai.com.example",
        "nopenai.com",
    ] {
        assert_eq!(exempting_entry(entries), None, "{entries}");
    }
}
