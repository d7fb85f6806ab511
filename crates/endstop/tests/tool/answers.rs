//! The texts that a model reads if a call has no result.

use std::time::Duration;

use endstop::core::signal::{StopReason, StopSignal};
use endstop::core::units::Money;
use endstop::tool::answers::{self, MAX_PARTIAL_BYTES, MAX_QUOTED_BYTES, StoppedAgent};

fn stop() -> StopSignal {
    StopSignal::new(StopReason::StepsLimitReached)
}

#[test]
fn each_outcome_says_what_happened_and_why() {
    let signal = stop();
    for (text, expected) in [
        (
            answers::refused("bash", "calls", "max_tool_calls(3)", "3 tool calls"),
            "Not run: a limit of this run refuses the call of `bash`. The rule `calls` is \
             max_tool_calls(3); now it is at 3 tool calls. Calling it again will be refused too; continue \
             with what you have.",
        ),
        (
            answers::refused("bash", "", "", ""),
            "Not run: a limit of this run refuses the call of `bash`. Calling it again will be refused \
             too; continue with what you have.",
        ),
        (
            answers::blocked("bash", "no_rm", "it deletes files"),
            "Not run: the call of `bash` was blocked by `no_rm`: it deletes files.",
        ),
        (answers::failed("read", "no such file"), "`read` failed: no such file"),
        (
            answers::panicked("read", "index out of bounds"),
            "`read` failed because of a defect in the tool: index out of bounds",
        ),
        (
            answers::timed_out("read", Duration::from_millis(1500)),
            "`read` was stopped after 1.5 s, its time limit. Its effects until then may remain.",
        ),
        (
            answers::invalid_arguments("read", "/path: missing, expected a string"),
            "Not run: the arguments of `read` do not fit.\n/path: missing, expected a string\nCall it \
             again with arguments that fit.",
        ),
        (
            answers::not_executed("read", &signal),
            "Not run: the run was stopped before `read` began: steps_limit",
        ),
        (
            answers::cut_off("read", &signal, Duration::from_millis(20)),
            "`read` was cut off after 20 ms because the run was stopped: steps_limit. Its effects until \
             then may remain.",
        ),
        (
            answers::still_running("read", &signal, Duration::from_secs(61)),
            "`read` was left running after 61 s because the run was stopped and it cannot be aborted: \
             steps_limit. Its result is not known.",
        ),
    ] {
        assert_eq!(text, expected);
    }
}

#[test]
fn an_unknown_tool_is_answered_with_those_there_are() {
    let known = ["read", "write"];
    let text = answers::unknown_tool("raed", &["read"], &known);
    assert_eq!(text, "Not run: there is no tool `raed`. Do you mean `read`?");
    let text = answers::unknown_tool("x", &["read", "write"], &known);
    assert_eq!(text, "Not run: there is no tool `x`. Do you mean one of `read`, `write`?");
    let text = answers::unknown_tool("x", &[], &known);
    assert_eq!(text, "Not run: there is no tool `x`. The tools are `read`, `write`.");
    let text = answers::unknown_tool("x", &[], &[]);
    assert_eq!(text, "Not run: there is no tool `x`. There are no tools here; answer without one.");
    let text = answers::unknown_tool("x", &[], &["t"; 100]);
    assert_eq!(
        text,
        "Not run: there is no tool `x`. Take one of the 100 tools that you were given."
    );
}

#[test]
fn a_stopped_agent_tells_reason_numbers_and_partial_answer() {
    let signal = stop();
    let stopped = StoppedAgent {
        agent: "helper",
        signal: &signal,
        limit: "steps >= 3",
        steps: 3,
        tokens: 1200,
        cost: Some(Money::from_picos(250_000_000_000)),
        partial: "So far: two files.",
    };
    assert_eq!(
        answers::stopped_agent(&stopped),
        "The agent `helper` was stopped before it finished: steps_limit (limit: steps >= 3). It used 3 \
         steps, 1.2k tokens, $0.25. Its unfinished answer:\nSo far: two files."
    );
    let silent = StoppedAgent { partial: " \n", limit: "", cost: None, steps: 1, ..stopped };
    assert_eq!(
        answers::stopped_agent(&silent),
        "The agent `helper` was stopped before it finished: steps_limit. It used 1 step, 1.2k tokens, at \
         an unknown cost. It gave no answer."
    );
}

#[test]
fn nothing_quoted_fills_the_context_and_no_reason_is_still_an_answer() {
    let long = "é".repeat(100_000);
    for text in [
        answers::refused(&long, &long, &long, &long),
        answers::blocked(&long, &long, &long),
        answers::failed(&long, &long),
        answers::invalid_arguments(&long, &long),
        answers::unknown_tool(&long, &[&long], &[&long]),
        answers::not_executed(&long, &StopSignal { message: long.clone(), ..stop() }),
    ] {
        assert!(text.len() < 4 * MAX_QUOTED_BYTES, "{}", text.len());
        assert!(text.contains('…'));
    }
    let signal = stop();
    let stopped = StoppedAgent {
        agent: &long,
        signal: &signal,
        limit: &long,
        steps: 0,
        tokens: 0,
        cost: None,
        partial: &long,
    };
    assert!(answers::stopped_agent(&stopped).len() < MAX_PARTIAL_BYTES + 2 * MAX_QUOTED_BYTES);
    assert_eq!(answers::failed("read", " "), "`read` failed: no reason was given");
}
