//! Many policies in one pass do to every run what each does alone.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use endstop_core::expr::parse;
use endstop_core::policy::{Action, OnUnpriced, Rule};
use endstop_core::signal::StopReason;
use endstop_core::units::Money;
use endstop_core::{Condition, Policy, TripRecord};
use endstop_price::PriceTable;
use endstop_replay::{Options, compare, explain, replay};
use endstop_transcript::{Part, Transcript, format, sample, walk};

fn condition(text: &str) -> Condition {
    parse(text).unwrap()
}

/// Of every kind of condition, watched together or not.
fn policies() -> Vec<Policy> {
    let texts = [
        "steps >= 1",
        "steps >= 2",
        "steps >= 7",
        "cost >= $0.01",
        "cost >= $0.20",
        "tokens >= 5k",
        "output_tokens >= 100",
        "tool_calls >= 3",
        "own.steps >= 2",
        "messages >= 4",
        "active >= 30s",
        "idle >= 1m",
        "repeats >= 2",
        "cycles >= 2",
        "no_progress(2)",
        "streak(near_duplicate) >= 2",
        "streak(no_tool_calls) >= 2",
        "errored",
        "said(\"the\")",
        "called(\"bash\") then called(\"read\")",
        "subagents >= 1",
        "depth >= 1",
        "not ever(called(\"submit\")) and steps >= 3",
    ];
    let mut policies: Vec<Policy> =
        texts.iter().map(|text| Policy::stop(condition(text))).collect();
    let ignoring = texts.iter().map(|text| {
        let mut policy = Policy::stop(condition(text));
        policy.on_unpriced = Some(OnUnpriced::Ignore);
        policy
    });
    policies.extend(ignoring.collect::<Vec<_>>());
    for action in [Action::Finish, Action::Pause, Action::Warn] {
        let mut policy = Policy::stop(condition("steps >= 4"));
        policy.rules.push(Rule::new("also", action, condition("steps >= 2")));
        policies.push(policy);
    }
    policies
}

/// Runs of which a person lets some continue, and some get a signal from outside.
fn interventions() -> Transcript {
    let step = |at: u64, tool: &str| {
        format!(
            "{{\"at\":{at},\"event\":\"step_begin\"}}\n\
             {{\"at\":{at},\"event\":\"attempt_begin\"}}\n\
             {{\"at\":{at},\"event\":\"reply\",\"model\":\"m\",\"usage\":{{\"input\":9000,\"output\":40}},\
             \"cost\":\"0.15\",\"tool_calls\":1}}\n\
             {{\"at\":{at},\"event\":\"tool_begin\",\"tool\":\"{tool}\"}}\n\
             {{\"at\":{at},\"event\":\"tool_end\",\"tool\":\"{tool}\",\"arguments\":\"{{}}\",\"result\":\"same\"}}\n\
             {{\"at\":{at},\"event\":\"step_end\"}}\n"
        )
    };
    let mut text = String::new();
    let between = [
        "{\"at\":40,\"event\":\"continuation_requested\",\"by\":\"a person\"}\n",
        "{\"at\":40,\"event\":\"signal\",\"name\":\"enough\"}\n",
        "{\"at\":40,\"event\":\"approved\",\"rule\":\"also\"}\n",
        "{\"at\":40,\"event\":\"cancel\",\"message\":\"no more\"}\n",
        "{\"at\":40,\"refused\":true,\"event\":\"step_begin\"}\n",
        "",
    ];
    for (index, between) in between.iter().enumerate() {
        text.push_str(&format!("{{\"endstop_trace\":1,\"run\":\"r{index}\"}}\n"));
        text.push_str(
            "{\"at\":0,\"event\":\"run_begin\"}\n{\"at\":0,\"event\":\"user_message\"}\n",
        );
        (1..4).for_each(|at| text.push_str(&step(at * 10, "bash")));
        text.push_str(between);
        (5..9).for_each(|at| {
            text.push_str(&step(at * 10, if at % 2 == 0 { "read" } else { "bash" }))
        });
        text.push_str("{\"at\":99,\"event\":\"run_end\",\"succeeded\":true}\n");
    }
    let main = Part::bytes("interventions.jsonl", text.into_bytes());
    Transcript { format: format("endstop").unwrap(), main, children: Vec::new() }
}

fn transcripts() -> Vec<Transcript> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../endstop-transcript/tests/data");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let mut directories: Vec<PathBuf> = vec![data];
    for directory in ["openai-chat", "codex", "claude-code"] {
        let path = recorded.join(directory);
        match path.is_dir() {
            true => directories.push(path),
            false => println!("skipped: no recorded runs in ../shared/traces/{directory}"),
        }
    }
    let mut all = walk(&directories).unwrap().transcripts;
    all.extend(sample());
    all.push(interventions());
    all
}

#[test]
fn many_policies_in_one_pass_do_what_each_does_alone() {
    let (transcripts, policies, outcomes) = (transcripts(), policies(), BTreeMap::new());
    let nothing = Policy::default();
    let prices = PriceTable::embedded();
    let with = |policy| Options { policy, outcomes: &outcomes, prices, jobs: 2, as_live: false };
    let compared = compare(&transcripts, &policies, &with(&nothing), &|_| ()).unwrap();
    let mut stopped = 0;
    for (index, policy) in policies.iter().enumerate() {
        let alone = replay(&transcripts, &with(policy), &|_| ()).unwrap();
        assert_eq!(alone.per_run.len(), compared.runs.len());
        for (number, run) in alone.per_run.iter().enumerate() {
            let cut = compared.cuts[number][index];
            let what = format!("policy {index} {:?}, run {}", policy.rules[0].condition, run.id);
            assert_eq!(cut.map(|cut| cut.step), run.stopped_at_step, "{what}");
            let saved = cut.map(|cut| run.tokens - cut.tokens);
            assert_eq!(saved, run.tokens_saved, "{what}");
        }
        let effect = compared.effect(index);
        // Where the cost is not known in full, a comparison counts no dollars, and no stop of a rule on them.
        let priced =
            || alone.per_run.iter().filter(|run| run.unpriced_calls == 0 && run.cost.is_some());
        let sum =
            |amounts: Vec<Money>| amounts.into_iter().map(|amount| amount.picos()).sum::<u64>();
        let (saved, cost): (u64, u64) = (
            sum(priced().filter_map(|run| run.saved).collect()),
            sum(priced().filter_map(|run| run.cost).collect()),
        );
        assert_eq!((effect.saved.picos(), effect.cost.picos()), (saved, cost));
        let tested = priced().filter(|run| run.stopped_at_step.is_some()).count() as u64;
        assert!((tested..=alone.stopped).contains(&effect.stopped), "{}", effect.stopped);
        assert_eq!(effect.runs, alone.runs);
        assert_eq!(compared.usage, alone.usage);
        stopped += alone.stopped;
    }
    assert!(stopped > 100, "{stopped}");
}

#[test]
fn a_step_that_was_refused_is_no_step_and_stops_whoever_refuses_it_too() {
    let turn = "{\"at\":1,\"event\":\"step_begin\"}\n\
        {\"at\":1,\"event\":\"reply\",\"model\":\"m\",\"cost\":\"0.15\"}\n\
        {\"at\":1,\"event\":\"step_end\"}\n";
    let refused = "{\"at\":2,\"refused\":true,\"event\":\"step_begin\"}\n";
    let header = "{\"endstop_trace\":1,\"run\":\"a\"}\n";
    let text = format!("{header}{turn}{turn}{refused}{turn}");
    let main = Part::bytes("a.jsonl", text.into_bytes());
    let inputs = [Transcript { format: format("endstop").unwrap(), main, children: Vec::new() }];
    let outcomes = BTreeMap::new();
    for (limit, stopped) in [(2, Some(2)), (3, None), (4, None)] {
        let policy = Policy::stop(condition(&format!("steps >= {limit}")));
        let prices = PriceTable::embedded();
        let options =
            Options { policy: &policy, outcomes: &outcomes, prices, jobs: 1, as_live: false };
        let run = replay(&inputs, &options, &|_| ()).unwrap().per_run.remove(0);
        assert_eq!((run.steps, run.stopped_at_step), (3, stopped), "{limit}");
    }
}

/// The trip record of a policy over one trace, without its header.
fn explained(policy: &str, events: &str) -> TripRecord {
    let text = format!("{{\"endstop_trace\":1,\"run\":\"a\"}}\n{events}");
    let main = Part::bytes("a.jsonl", text.into_bytes());
    let input = Transcript { format: format("endstop").unwrap(), main, children: Vec::new() };
    let (policy, outcomes) = (Policy::from_toml(policy).unwrap(), BTreeMap::new());
    let prices = PriceTable::embedded();
    let options = Options { policy: &policy, outcomes: &outcomes, prices, jobs: 1, as_live: false };
    explain(&input, &options).unwrap().0.remove(0).trip_record
}

#[test]
fn the_end_of_a_run_that_ended_by_itself_brings_no_limit_back() {
    let events = "{\"at\":1,\"event\":\"step_begin\"}\n\
        {\"at\":1,\"event\":\"reply\",\"model\":\"m\"}\n\
        {\"at\":1,\"event\":\"step_end\"}\n\
        {\"at\":2,\"event\":\"run_end\"}\n";
    let record = explained("[stop]\nlimit = 'steps >= 1'", events);
    assert_eq!(record.primary.unwrap().reason, StopReason::Completed);
    assert_eq!((record.steps, record.rule), (1, None));
}

#[test]
fn the_refusal_of_a_recorded_tool_call_is_a_message() {
    let events = "{\"at\":1,\"event\":\"step_begin\"}\n\
        {\"at\":1,\"event\":\"reply\",\"model\":\"m\",\"tool_calls\":1}\n\
        {\"at\":1,\"event\":\"tool_begin\",\"tool\":\"look\"}\n\
        {\"at\":1,\"event\":\"tool_end\",\"tool\":\"look\",\"arguments\":\"{}\",\"result\":\"ok\"}\n\
        {\"at\":1,\"event\":\"step_end\"}\n";
    let record = explained("[finish]\nlimit = 'messages >= 2 or steps >= 0'", events);
    assert_eq!(record.steps, 1);
    assert_eq!(record.rules[0].tree.parts[0].observed.as_deref(), Some("2"));
}

/// A worst case is far above what a call costs: counted as if it were spent, it would stop nearly every run at its first
/// step.
#[test]
fn recorded_reservations_count_only_as_live() {
    let header = "{\"endstop_trace\":1,\"run\":\"a\"}\n";
    let step = "{\"at\":1,\"event\":\"step_begin\"}\n\
        {\"at\":1,\"event\":\"reserve\",\"input_tokens\":53200,\"output_tokens\":500,\"cost\":\"0.40\"}\n\
        {\"at\":1,\"event\":\"attempt_begin\",\"next_cost\":\"0.40\"}\n\
        {\"at\":1,\"event\":\"reply\",\"model\":\"m\",\"cost\":\"0.01\"}\n\
        {\"at\":1,\"event\":\"step_end\"}\n";
    let text = format!("{header}{}", step.repeat(6));
    let main = Part::bytes("a.jsonl", text.into_bytes());
    let inputs = [Transcript { format: format("endstop").unwrap(), main, children: Vec::new() }];
    let outcomes = BTreeMap::new();
    let cases = [
        ("cost >= $0.10", None, Some(1)),
        ("cost >= $0.03", Some(3), Some(1)),
        ("cost >= $0.44", None, Some(6)),
        ("tokens >= 53k", None, Some(1)),
        ("cost >= $1", None, None),
        // A separate condition, and no reservation of the limit.
        ("next_cost >= $0.30", Some(1), Some(1)),
    ];
    for (limit, spent, live) in cases {
        let policy = Policy::stop(condition(limit));
        let prices = PriceTable::embedded();
        for (as_live, stopped) in [(false, spent), (true, live)] {
            let options =
                Options { policy: &policy, outcomes: &outcomes, prices, jobs: 1, as_live };
            let run = replay(&inputs, &options, &|_| ()).unwrap().per_run.remove(0);
            assert_eq!((run.steps, run.stopped_at_step), (6, stopped), "{limit}, live {as_live}");
            let many =
                compare(&inputs, &[policy.clone(), policy.clone()], &options, &|_| ()).unwrap();
            assert_eq!(many.cuts[0][1].map(|cut| cut.step), stopped, "{limit}, live {as_live}");
        }
    }
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let (transcripts, policies, outcomes) = (transcripts(), policies(), BTreeMap::new());
    let nothing = Policy::default();
    let with = |jobs| Options {
        policy: &nothing,
        outcomes: &outcomes,
        prices: PriceTable::embedded(),
        jobs,
        as_live: false,
    };
    let one = compare(&transcripts, &policies, &with(1), &|_| ()).unwrap();
    let four = compare(&transcripts, &policies, &with(4), &|_| ()).unwrap();
    assert_eq!((one.runs, one.cuts, one.usage), (four.runs, four.cuts, four.usage));
}

/// Large enough to be read in pieces: runs whose results are long, some without a name or damaged, with
/// that many tools.
fn large(name: &str, runs: u64, tools: u64) -> Transcript {
    let result = "some result ".repeat(usize::try_from((24 << 20) / runs / 12).unwrap());
    let mut text = String::new();
    for run in 0..runs {
        let tool = format!("tool {}", run.wrapping_mul(7_919) % tools);
        let id = if run % 5 == 0 { String::new() } else { format!("run {run}") };
        text.push_str(&format!("{{\"endstop_trace\":1,\"run\":\"{id}\"}}\n"));
        text.push_str(if run % 97 == 40 { "{\"at\":0,\n" } else { "\n" });
        for step in 0..1 + run % 3 {
            text.push_str(&format!(
                "{{\"at\":{step},\"event\":\"step_begin\"}}\n\
                 {{\"at\":{step},\"event\":\"reply\",\"model\":\"m\",\"usage\":{{\"input\":9,\"output\":4}},\
                 \"cost\":\"0.15\",\"tool_calls\":1}}\n\
                 {{\"at\":{step},\"event\":\"tool_begin\",\"tool\":\"{tool}\"}}\n"
            ));
        }
        let end = format!("\"tool\":\"{tool}\",\"arguments\":\"\",\"result\":\"{result}\"");
        text.push_str(&format!("{{\"at\":9,\"event\":\"tool_end\",{end}}}\n"));
    }
    text.push_str("{\"at\":9,\"event\":");
    let main = Part::bytes(name.to_owned(), text.into_bytes());
    Transcript { format: format("endstop").unwrap(), main, children: Vec::new() }
}

#[test]
fn the_report_of_large_files_does_not_depend_on_the_number_of_threads() {
    // The second has more tools than are distinguished.
    let inputs = [large("one.jsonl", 300, 40), large("two.jsonl", 6_000, 5_000)];
    for input in &inputs {
        assert!(input.format.pieces(&input.main, 8 << 20).len() > 1);
    }
    let (policy, outcomes) = (Policy::stop(condition("steps >= 2")), BTreeMap::new());
    let report = |jobs| {
        let prices = PriceTable::embedded();
        let options =
            Options { policy: &policy, outcomes: &outcomes, prices, jobs, as_live: false };
        let done = AtomicUsize::new(0);
        let count = |_: &Transcript| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        let report = replay(&inputs, &options, &count).unwrap();
        assert_eq!(done.into_inner(), inputs.len());
        report
    };
    let one = report(1);
    assert_eq!((one.runs, one.per_run.len(), one.warnings.len()), (6_300, 6_300, 4));
    assert!(one.stopped > 1_000 && one.stopped < 6_300, "{}", one.stopped);
    for jobs in [2, 4] {
        let other = report(jobs);
        assert!(other == one, "{jobs} threads");
        let text = |report| serde_json::to_string(report).unwrap();
        assert!(text(&other) == text(&one), "{jobs} threads");
    }
}

/// A tool's own cost is spend like a model's; what it declares counts as other reservations do.
#[test]
fn the_cost_of_tools_counts_and_their_reservations_only_as_live() {
    let step = "{\"at\":1,\"event\":\"step_begin\"}\n\
        {\"at\":1,\"event\":\"reply\",\"model\":\"m\",\"cost\":\"0.01\",\"tool_calls\":1}\n\
        {\"at\":1,\"event\":\"tool_reserve\",\"tool\":\"buy\",\"cost\":\"0.40\",\"held\":\"0.05\"}\n\
        {\"at\":1,\"event\":\"tool_begin\",\"tool\":\"buy\"}\n\
        {\"at\":1,\"event\":\"tool_cost\",\"tool\":\"buy\",\"cost\":\"0.09\"}\n\
        {\"at\":1,\"event\":\"tool_end\",\"tool\":\"buy\",\"arguments\":\"{}\",\"result\":\"ok\"}\n\
        {\"at\":1,\"event\":\"step_end\"}\n";
    let text = format!("{{\"endstop_trace\":1,\"run\":\"a\"}}\n{}", step.repeat(4));
    let main = Part::bytes("a.jsonl", text.into_bytes());
    let inputs = [Transcript { format: format("endstop").unwrap(), main, children: Vec::new() }];
    let outcomes = BTreeMap::new();
    for (limit, spent, live) in [
        ("cost >= $0.20", Some(2), Some(1)),
        ("cost >= $0.60", None, Some(3)),
        ("cost >= $1", None, None),
    ] {
        let policy = Policy::stop(condition(limit));
        let prices = PriceTable::embedded();
        for (as_live, stopped) in [(false, spent), (true, live)] {
            let options =
                Options { policy: &policy, outcomes: &outcomes, prices, jobs: 1, as_live };
            let report = replay(&inputs, &options, &|_| ()).unwrap();
            let run = &report.per_run[0];
            assert_eq!(run.stopped_at_step, stopped, "{limit}, live {as_live}");
            assert_eq!(report.cost.to_decimal(), "0.4", "{limit}");
        }
    }
}

#[test]
fn a_call_that_a_policy_does_not_let_begin_costs_nothing() {
    let events = "{\"at\":1,\"event\":\"step_begin\"}\n\
        {\"at\":1,\"event\":\"reply\",\"model\":\"m\",\"cost\":\"0.01\",\"tool_calls\":1}\n\
        {\"at\":1,\"event\":\"tool_begin\",\"tool\":\"buy\"}\n\
        {\"at\":1,\"event\":\"tool_cost\",\"tool\":\"buy\",\"cost\":\"0.09\"}\n\
        {\"at\":1,\"event\":\"tool_end\",\"tool\":\"buy\",\"arguments\":\"{}\",\"result\":\"ok\"}\n\
        {\"at\":1,\"event\":\"step_end\"}\n";
    let record = explained("[finish]\nlimit = 'steps >= 0'", events);
    assert_eq!(record.cost_usd.as_deref(), Some("0.01"));
    let record = explained("[stop]\nlimit = 'steps >= 9'", events);
    assert_eq!(record.cost_usd.as_deref(), Some("0.1"));
}
