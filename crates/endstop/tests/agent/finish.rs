//! The wrap-up: one more call, tools off, within every stop limit; and warnings.

use std::sync::Arc;

use endstop::agent::RetryPolicy;
use endstop::core::run::Status;
use endstop::core::signal::StopReason;
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ModelError, ModelErrorKind, ScriptedModel, ScriptedResponse, ToolChoice};
use endstop::observe::{Recorded, Recording};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// Calls a tool as long as it may, then says what it has.
fn obedient() -> Arc<ScriptedModel> {
    priced(|request, _| {
        let reply = match request.tools.is_empty() {
            true => ScriptedResponse::text("All I have."),
            false => ScriptedResponse::call("look", json!({})),
        };
        reply.usage(100, 20)
    })
}

#[tokio::test(start_paused = true)]
async fn steps_under_finish_alone_are_so_many_and_the_wrap_up() {
    for n in [0u64, 1, 3, 10] {
        let model = obedient();
        let rules = format!("[finish]\nwrap_up = \"steps >= {n}\"\n");
        let agent = under(&model, &rules).tool(ok_tool("look")).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!((state.step_count(), model.calls()), (n + 1, n + 1), "{}", state.explain());
        let wrap_ups: Vec<bool> = state.steps().iter().map(|step| step.is_wrap_up).collect();
        assert_eq!(wrap_ups.iter().filter(|is| **is).count(), 1);
        assert!(wrap_ups[n as usize]);
        let requests = model.requests();
        let (last, before) = requests.split_last().unwrap();
        assert!(last.tools.is_empty() && last.tool_choice == ToolChoice::None);
        assert!(before.iter().all(|r| r.tools.len() == 1 && r.tool_choice == ToolChoice::Auto));
        assert!(
            matches!(last.messages.last(), Some(Message::System { text }) if text.contains("last turn"))
        );
        assert_eq!(state.current_response(), Some("All I have."));
        assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
        assert_all_answered(&state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrap_up_by_steps_fits_the_stop_limit_whichever_comes_first() {
    for (stop, finish, steps) in [(5, 4, 5), (5, 9, 5), (5, 2, 3), (1, 1, 1), (2, 1, 2)] {
        let model = obedient();
        let rules = format!(
            "[stop]\nlimit = \"steps >= {stop}\"\n[finish]\nwrap_up = \"steps >= {finish}\"\n"
        );
        let agent = under(&model, &rules).tool(ok_tool("look")).build().unwrap();
        let state = agent.run("Go.").await.unwrap();
        assert_eq!((state.step_count(), model.calls()), (steps, steps), "{rules}");
        assert!(model.calls() <= stop);
        let wraps = state.steps().last().unwrap().is_wrap_up;
        assert_eq!(wraps, finish <= stop, "{rules}: {}", state.explain());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrap_up_by_money_or_tokens_has_its_budget_reserved() {
    let cases = [
        "[stop]\nlimit = \"cost >= $0.10\"\n[finish]\nwrap_up = \"cost >= $0.05\"\n",
        "[stop]\nlimit = \"cost >= $0.06\"\n[finish]\nwrap_up = \"cost >= $0.059\"\n",
        "[stop]\nlimit = \"tokens >= 20k\"\n[finish]\nwrap_up = \"tokens >= 15k\"\n",
        "[stop]\nlimit = \"tokens >= 20k or cost >= $0.10\"\n[finish]\nwrap_up = \"tokens >= 19k\"\n",
        "unbounded = true\n[finish]\nwrap_up = \"tokens >= 20k\"\n",
        "unbounded = true\n[finish]\nwrap_up = \"cost >= $0.06\"\n",
    ];
    for rules in cases {
        // Uses the most that it may.
        let model = priced(|request, _| {
            let cap = request.max_output_tokens.unwrap();
            match request.tools.is_empty() {
                true => ScriptedResponse::text("All I have.").usage(150, cap),
                false => ScriptedResponse::call("look", json!({})).usage(150, cap.min(900)),
            }
        });
        let agent = under(&model, rules).tool(ok_tool("look")).max_output_tokens(2_000);
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert!(model.calls() > 3, "{rules}: {}", state.explain());
        assert!(state.steps().last().unwrap().is_wrap_up, "{rules}: {}", state.explain());
        assert_eq!(state.current_response(), Some("All I have."), "{rules}");
        assert!(state.usage().total() <= 20_000, "{rules}: {:?}", state.usage());
        assert!(
            !rules.contains("cost") || state.cost().unwrap() <= usd("0.10"),
            "{rules}: {:?}",
            state.cost()
        );
        assert_eq!(state.status(), Status::Stopped, "{rules}");
        assert_all_answered(&state);
    }
}

/// Attempts that fail without a report are charged, until a further one would leave no room for the wrap-up.
#[tokio::test(start_paused = true)]
async fn a_further_attempt_gives_way_to_the_wrap_up_that_fits_no_longer_beside_it() {
    for limits in ["tokens >= 20k", "cost >= $0.10"] {
        let model = priced(|request, _| match request.tools.is_empty() {
            true => ScriptedResponse::text("All I have.").usage(150, 40),
            false => ScriptedResponse::default().fail_with(ModelError {
                status: Some(504),
                ..ModelError::new(ModelErrorKind::TimedOut, "the gateway gave up")
            }),
        });
        let finish = limits.replace("20k", "19k").replace("0.10", "0.095");
        let rules = format!("[stop]\nlimit = \"{limits}\"\n[finish]\nwrap_up = \"{finish}\"\n");
        let retry = RetryPolicy { max_attempts: 99, ..RetryPolicy::default() };
        let agent = under(&model, &rules).tool(ok_tool("look")).max_output_tokens(4_000);
        let state = agent.retry(retry).build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.current_response(), Some("All I have."), "{limits}: {}", state.explain());
        let wraps: Vec<bool> = state.steps().iter().map(|step| step.is_wrap_up).collect();
        assert_eq!(wraps, [false, true], "{limits}");
        assert!(state.steps()[0].attempts > 1 && state.steps()[1].attempts == 1, "{limits}");
        assert_eq!(state.status(), Status::Stopped, "{limits}");
        assert!(state.usage().total() <= 20_000 || state.cost().unwrap() <= usd("0.10"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_calls_tools_in_the_wrap_up_is_refused_and_the_run_ends() {
    let model = replies([ScriptedResponse::text("Never enough.")
        .tool_call("look", json!({}))
        .usage(10, 5)]);
    let rules = "[stop]\nlimit = \"steps >= 9\"\n[finish]\nwrap_up = \"steps >= 2\"\n";
    let agent = under(&model, rules).tool(ok_tool("look")).build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((state.step_count(), model.calls()), (3, 3));
    let expected = [ToolOutcome::Succeeded, ToolOutcome::Succeeded, ToolOutcome::Refused];
    assert_eq!(outcomes(&state), expected);
    assert_eq!(state.status(), Status::Stopped, "{}", state.explain());
    assert_eq!(state.final_response(), None);
    assert_eq!(state.current_response(), Some("Never enough."));
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_an_event_and_one_note_to_the_model_with_what_is_left() {
    let rules = "[stop]\nlimit = \"steps >= 6 or tokens >= 100k\"\n[warn]\nnear = \"steps >= 2\"\nmore = \"tokens >= 400\"\n";
    for tells in [true, false] {
        let (model, seen) = (obedient(), Arc::new(Recording::new()));
        let agent = under(&model, rules).tool(ok_tool("look")).shared_observer(seen.clone());
        let agent = if tells { agent.tell_model_of_warnings() } else { agent };
        let state = agent.build().unwrap().run("Go.").await.unwrap();
        assert_eq!(state.step_count(), 6);
        let warned: Vec<String> = seen
            .entries()
            .into_iter()
            .filter_map(|entry| match entry {
                Recorded::Warned { notice, .. } => Some(notice.rule),
                _ => None,
            })
            .collect();
        assert_eq!(warned, ["near", "more"], "once for each rule");
        let notes: Vec<&str> = state
            .messages
            .iter()
            .filter(|m| matches!(m, Message::System { .. }))
            .map(Message::text)
            .collect();
        if tells {
            assert_eq!(notes.len(), 2, "{notes:?}");
            assert!(notes[0].contains("steps is 2") && notes[0].contains("4 steps"), "{notes:?}");
            assert!(
                notes[1].contains("1 step,") && notes[1].contains("tokens is 480"),
                "{notes:?}"
            );
        } else {
            assert!(notes.is_empty(), "{notes:?}");
        }
    }
}

/// A finish rule that no token and no dollar brings about takes nothing from the output of a further attempt.
#[tokio::test(start_paused = true)]
async fn a_finish_rule_on_errors_does_not_lower_the_output_of_a_further_attempt() {
    let model = priced(|_, call| match call {
        0 => ScriptedResponse::default().fail(ModelErrorKind::Unavailable, None),
        _ => ScriptedResponse::text("Half an ans").usage(150, 9).finish("length"),
    });
    let agent = under(&model, "unbounded = true\n[finish]\nfirst = 'errored'\n").build().unwrap();
    let state = agent.run("Go.").await.unwrap();
    let caps: Vec<_> = model.requests().iter().map(|request| request.max_output_tokens).collect();
    assert!(caps.len() == 2 && caps[0] == caps[1], "{caps:?}: {}", state.explain());
    assert_eq!(state.stop_reason(), Some(StopReason::Completed), "{}", state.explain());
}
