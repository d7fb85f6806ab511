//! Tests of `outcome`.

use endstop::core::run::Status;
use endstop::observe::{Spend, SpendCertainty};
use endstop::store::RunId;

use super::*;

#[test]
fn a_stop_that_was_not_obeyed_is_told_as_one_that_would_have_been() {
    let record = "stopped: cost_limit: the next call could reach $2\nrefused: a model request of step 2\n\nusd (stop)";
    let told = "would have stopped: cost_limit: the next call could reach $2\nwould have refused: a model request of \
        step 2\n\nusd (stop)";
    assert_eq!(not_obeyed(record), told);
}

#[test]
fn the_summary_shows_the_used_part_of_a_plan() {
    let quotas = [("5h".to_owned(), 4_200), ("7d".to_owned(), 1_050)];
    assert_eq!(plan_text(&quotas), "5h 42%, 7d 10.5%");
}

#[test]
fn conversations_that_nobody_named_are_no_sub_agents() {
    let agent = |name: String, steps| SubAgent {
        run: RunId::new(),
        agent: name,
        status: Status::Completed,
        reason: None,
        steps,
        tokens: 1,
        spend: Spend {
            usd: steps.to_string(),
            is: SpendCertainty::Known,
            unpriced_calls: 0,
            estimated_calls: 0,
            unconfirmed_usd: Money::ZERO,
            unconfirmed_calls: 0,
            unconfirmed_causes: std::collections::BTreeMap::new(),
        },
    };
    let mut agents: Vec<_> = (2..170).map(|n| agent(format!("conversation {n}"), 1)).collect();
    agents.push(agent("critic".to_owned(), 2));
    let lines = of_agents(&agents);
    assert!(lines[0].starts_with("  sub-agent critic: 2 steps"), "{lines:?}");
    assert_eq!(lines[5], "  and 164 more conversations");
    agents.push(agent("late".to_owned(), 0));
    agents.extend((0..5).map(|n| agent(format!("reader {n}"), 9)));
    assert_eq!(of_agents(&agents)[5], "  and 1 more sub-agent and 168 more conversations");
    assert_eq!(of_agents(&agents[..2]).len(), 2);
}
