//! Rules of OpenHands' runs.

use endstop_core::{Event, EventKind};

use super::*;
use crate::{Part, Source};
use endstop_price::PriceTable;

/// Runs, what happened in them, their outcomes, and warnings.
#[derive(Default)]
struct Told {
    runs: Vec<String>,
    events: Vec<String>,
    outcomes: Vec<Option<bool>>,
    warnings: Vec<WarningKind>,
}

impl RunSink for Told {
    fn begin(&mut self, run: &RunHeader<'_>) {
        self.runs.push(run.id.to_owned());
    }

    fn event(&mut self, event: &Event<'_>) {
        self.events.push(match event.kind {
            EventKind::UserMessage => "user".to_owned(),
            EventKind::AttemptFailed { .. } => "attempt failed".to_owned(),
            EventKind::Reply { cost, tool_calls, .. } => format!("reply {cost:?} {tool_calls}"),
            EventKind::ToolEnd { tool, arguments, result, failed } => {
                format!("{tool} {arguments} {result} {failed}")
            }
            _ => return,
        });
    }

    fn end(&mut self, end: &RunFooter<'_>) {
        self.outcomes.push(end.outcome);
    }

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning.kind);
    }
}

fn told(text: &str) -> Told {
    let part = Part::bytes("run.json", text.as_bytes().to_vec());
    let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
    let mut told = Told::default();
    crate::format("openhands").unwrap().read(&source, &mut told);
    told
}

/// An action `run` of the agent, of the response with this id.
fn action(id: u64, response: &str) -> String {
    format!(
        r#"{{"id":{id},"source":"agent","action":"run","args":{{"command":"ls"}},"tool_call_metadata":{{"tool_call_id":"c{id}","model_response":{{"id":"{response}"}}}}}}"#
    )
}

const USER: &str = r#"{"id":0,"source":"user","action":"message","args":{"content":"x"}}"#;

#[test]
fn an_exit_code_above_zero_is_a_failure_and_a_running_command_is_none() {
    for (observation, failed) in [
        (r#""observation":"run","extras":{"metadata":{"exit_code":2}},"success":false"#, true),
        (r#""observation":"run","extras":{"metadata":{"exit_code":-1}},"success":false"#, false),
        (r#""observation":"run","exit_code":1"#, true),
        (r#""observation":"edit","success":false"#, true),
        (r#""observation":"edit""#, false),
        (r#""observation":"error""#, true),
    ] {
        let call =
            r#"{"id":1,"source":"agent","action":"run","args":{"command":"ls","thought":"t"}}"#;
        let told = told(&format!(
            r#"[{USER},{call},{{"id":2,"source":"agent","cause":1,"content":"r",{observation}}}]"#
        ));
        let result = format!(r#"run {{"command":"ls"}} r {failed}"#);
        assert_eq!(told.events, ["user", "reply Some(Unpriced) 1", &result], "{observation}");
    }
}

#[test]
fn a_response_that_comes_again_late_is_not_counted_again() {
    let (a, b) = (action(1, "r1"), action(2, "r2"));
    let told = told(&format!("[{USER},{a},{b},{}]", action(3, "r1")));
    assert_eq!(told.events.len(), 3);
    assert_eq!(told.warnings, [WarningKind::LateLine]);
}

#[test]
fn without_sources_the_user_and_the_agent_take_turns() {
    let say = r#"{"action":"message","content":"x"}"#;
    let told = told(&format!(r#"{{"instance_id":7,"history":[[{say},{say}],[{say},{say}]]}}"#));
    let reply = "reply Some(Unpriced) 0";
    assert_eq!(told.events, ["user", reply, "user", reply]);
    assert_eq!(told.runs, ["7"]);
}

#[test]
fn costs_count_where_each_call_has_one() {
    let (a, b) = (action(1, "r1"), action(2, "r2"));
    for (costs, is_known) in [
        ("[0.5,{\"cost\":0.25}]", true),
        ("[0.5]", false),
        ("[0.5,0.0]", false),
        ("[0.5,-1]", false),
    ] {
        let line = format!(r#"{{"history":[{USER},{a},{b}],"metrics":{{"costs":{costs}}}}}"#);
        let unknown = told(&line).events.iter().any(|event| event.contains("Unpriced"));
        assert_eq!(unknown, !is_known, "{costs}");
    }
}

#[test]
fn the_benchmark_says_whether_a_run_succeeded_and_a_model_does_not() {
    for (said, outcome) in [
        (r#""report":{"resolved":true}"#, Some(true)),
        (r#""test_result":{"report":{"resolved":false},"git_patch":""}"#, Some(false)),
        (r#""test_result":true"#, Some(true)),
        (r#""test_result":{"score":false}"#, Some(false)),
        (r#""test_result":{"git_patch":"x"}"#, None),
        (r#""success":true"#, None),
    ] {
        assert_eq!(
            told(&format!(r#"{{"history":[{USER}],{said}}}"#)).outcomes,
            [outcome],
            "{said}"
        );
    }
}

#[test]
fn neighbours_are_not_claimed() {
    for text in [
        r#"{"trajectory":[],"history":[{"action":"x","source":"y"}],"info":{}}"#,
        r#"{"instance_id":"x","model_patch":"y"}"#,
        r#"[{"role":"user","content":"\"action\""}]"#,
        r#"{"history":[["a","b"]]}"#,
    ] {
        assert!(!detect(&Head::new(text.as_bytes(), b"")), "{text}");
    }
}

#[test]
fn a_response_without_end_is_told_and_not_held() {
    let actions: Vec<String> = (1..=4_100).map(|id| action(id, "r")).collect();
    let told = told(&format!("[{USER},{}]", actions.join(",")));
    assert_eq!(told.events, ["user", "reply Some(Unpriced) 4096"]);
    assert_eq!(told.warnings, [WarningKind::TooLarge]);
}

#[test]
fn what_stands_behind_the_events_is_of_their_run() {
    let call = action(1, "r1");
    let told = told(&format!(
        "{{\"history\":[{USER},\n{call}],\n\"instance_id\":\"x\",\"report\":{{\"resolved\":true}}}}"
    ));
    assert_eq!((told.runs, told.outcomes), (vec!["x".to_owned()], vec![Some(true)]));
}

#[test]
fn lines_are_read_behind_one_that_is_cut() {
    let run = |id: u64| format!(r#"{{"instance_id":"{id}","history":[{USER}]}}"#);
    for damage in [r#"{"instance_id":"0","#, r#"{"instance_id":"#, "nothing"] {
        let told = told(&format!("{damage}\n{}\n{}\n", run(1), run(2)));
        assert_eq!(told.runs, ["1", "2"], "{damage}");
        assert_eq!(told.warnings, [WarningKind::Malformed], "{damage}");
    }
}

#[test]
fn sub_agents_of_one_step_act_inside_it_and_later_steps_come_behind() {
    let delegate = |id: u64| {
        format!(
            r#"{{"id":{id},"source":"agent","action":"delegate","args":{{}},"tool_call_metadata":{{"tool_call_id":"d{id}","model_response":{{"id":"both"}}}}}}"#
        )
    };
    let back = |id: u64, cause: u64| {
        format!(
            r#"{{"id":{id},"source":"agent","observation":"delegate","cause":{cause},"content":"done","tool_call_metadata":{{"tool_call_id":"d{cause}"}}}}"#
        )
    };
    let events = [
        USER.to_owned(),
        delegate(1),
        action(2, "child 1"),
        back(3, 1),
        delegate(4),
        action(5, "child 2"),
        back(6, 4),
        action(7, "own"),
    ];
    let told = told(&format!("[{}]", events.join(",")));
    let replies = told.events.iter().filter(|event| event.starts_with("reply"));
    assert_eq!(
        replies.collect::<Vec<_>>(),
        [
            "reply Some(Unpriced) 2",
            "reply Some(Unpriced) 1",
            "reply Some(Unpriced) 1",
            "reply Some(Unpriced) 1"
        ]
    );
    let ends = told.events.iter().filter(|event| event.starts_with("delegate"));
    assert_eq!(ends.count(), 2);
    assert!(told.warnings.is_empty(), "{:?}", told.warnings);
}
