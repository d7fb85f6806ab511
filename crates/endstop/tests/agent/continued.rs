//! Runs that continue: their state, what they must not lose, and refusals.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop::account::{Account, AccountSet, MemoryBudgetStore, RunAccounts};
use endstop::agent::{
    AgentBuilder, AgentLoop, AgentState, Approval, BuildError, CancellationSource, ExecuteError,
    Hook, HookContext, HookResult, Trigger,
};
use endstop::cancel::{CancelToken, MemoryKillSwitch, Urgency};
use endstop::core::run::Status;
use endstop::core::signal::{StopReason, StopSignal};
use endstop::ledger::{Budget, Limits};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ScriptedModel, ScriptedResponse};
use endstop::store::{MemoryStore, Store as _};
use endstop::tool::{FunctionTool, Handoff, ToolError, ToolOutput};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;

use crate::flaky_store::{FlakyStore, away};
use crate::kit::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_counts_once_in_a_budget_that_it_shares() {
    let model = caller("look");
    let budget = Budget::root(Limits { steps: Some(6), ..Limits::unlimited() });
    let builder = agent(&model, "steps >= 4").tool(ok_tool("look")).budget(budget.clone());
    let agent = builder.build().unwrap();
    let mut state = AgentState::with_prompt("Go.");
    for turn in 1..=4 {
        let mut steps = agent.iterate(carried(&state)).await.unwrap();
        steps.advance().await;
        state = steps.into_state();
        let settled = budget.settled();
        assert_eq!((settled.steps, settled.tokens), (turn, 110 * turn), "{}", state.explain());
    }
    // Its own limit counts all turns.
    let state = agent.execute(carried(&state)).await.unwrap();
    assert_eq!((state.step_count(), model.calls(), budget.settled().steps), (4, 4, 4));
    assert_eq!(state.stop_reason(), Some(StopReason::StepsLimitReached));
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_older_than_the_stored_run_is_refused() {
    let store = MemoryStore::new();
    let slow =
        ScriptedResponse::call("look", json!({})).usage(100, 10).delay(Duration::from_millis(10));
    let model = replies([slow]);
    let agent = agent(&model, "steps >= 5").tool(ok_tool("look")).store(Arc::new(store.clone()));
    let agent = agent.build().unwrap();
    let state = AgentState::with_prompt("Go.");
    let (id, fresh) = (state.id.clone(), state.clone());
    tokio::time::timeout(Duration::from_millis(25), agent.execute(state)).await.unwrap_err();
    let stored = store.load(&id).await.unwrap().unwrap();
    let saved = AgentState::from_json(&stored.text).unwrap();
    assert_eq!((saved.step_count(), model.calls()), (2, 3));
    for old in [saved, fresh] {
        let error = agent.execute(old).await.unwrap_err();
        assert!(matches!(&error, ExecuteError::Outdated { run, .. } if *run == id), "{error}");
        assert!(error.to_string().contains("resume"), "{error}");
    }
    let state = agent.resume(&id).await.unwrap();
    assert_eq!((state.step_count(), model.calls()), (5, 5));
    // A state that is not older continues.
    let state = agent.execute(state.with_message(Message::user("More?"))).await.unwrap();
    assert_eq!((state.step_count(), state.status()), (5, Status::Stopped));
}

fn hands_to(to: &'static str) -> FunctionTool {
    FunctionTool::without_arguments("transfer", "Hands off.", move |_| async move {
        let handoff = Handoff { to: to.to_owned(), message: "Please continue.".to_owned() };
        Ok::<_, ToolError>(ToolOutput::from(handoff))
    })
}

fn named(name: &str, model: &Arc<ScriptedModel>) -> AgentBuilder {
    AgentLoop::builder(name).model(model.clone()).stop_when(condition("steps >= 9"))
}

#[tokio::test(start_paused = true)]
async fn a_pause_behind_a_hand_off_does_not_undo_it() {
    let both = ScriptedResponse::call("transfer", json!({})).tool_call("look", json!({}));
    let (model, expert) = (replies([both]), answerer("Solved."));
    let agent = || {
        let other = named("expert", &expert).build().unwrap();
        let rules = "[stop]\nlimit = \"steps >= 3\"\n[pause]\nask = \"tool_calls >= 1\"\n";
        let first = under(&model, rules).tool(hands_to("expert")).tool(ok_tool("look"));
        first.handoff(other).parallel_tools(1).build().unwrap()
    };
    let state = agent().run("Go.").await.unwrap();
    assert_eq!((state.status(), outcomes(&state).len()), (Status::Paused, 1));
    let state = agent().execute(carried(&state).approved(None)).await.unwrap();
    assert_eq!((state.agent.as_str(), state.final_response()), ("expert", Some("Solved.")));
    assert_eq!((model.calls(), expert.calls()), (1, 1));
    assert_eq!(state.execution.handoff, None);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn what_a_user_says_during_a_pause_comes_behind_the_answers() {
    let three = || ScriptedResponse::call("look", json!({})).tool_call("look", json!({}));
    let rules = "[stop]\nlimit = \"steps >= 4\"\n[pause]\nask = \"tool_calls >= 1\"\n";
    let model = replies([three().tool_call("look", json!({})), ScriptedResponse::text("Done.")]);
    let agent = || under(&model, rules).tool(ok_tool("look")).parallel_tools(1).build().unwrap();
    let state = agent().run("Go.").await.unwrap();
    assert_eq!((state.status(), outcomes(&state).len()), (Status::Paused, 1));
    let state = carried(&state).approved(None).with_message(Message::user("Hurry."));
    let state = agent().execute(state).await.unwrap();
    assert_eq!(state.final_response(), Some("Done."));
    let is_answer = |m: &Message| matches!(m, Message::Tool { .. });
    assert!(state.messages[2..5].iter().all(is_answer), "{:?}", state.messages);
    assert_eq!(state.messages[5].text(), "Hurry.");
    let places = state.steps()[0].tool_executions.iter().map(|done| done.answer);
    assert_eq!(places.collect::<Vec<_>>(), [2, 3, 4]);
    assert_all_answered(&state);
}

#[tokio::test(start_paused = true)]
async fn the_hooks_of_the_agent_that_began_run_on_after_a_hand_off_and_first() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let noting = |builder: AgentBuilder, trigger, who: &'static str| {
        let log = Arc::clone(&log);
        builder.hook(trigger, 0, move |context| {
            log.lock().unwrap().push((context.trigger, who));
            if context.call.is_some_and(|call| call.tool == "look") {
                context.block(who);
            }
            Ok(())
        })
    };
    let both = |builder, who| {
        let builder = noting(builder, Trigger::BeforeToolUse, who);
        noting(noting(builder, Trigger::BeforeStep, who), Trigger::AfterExecution, who)
    };
    let expert =
        replies([ScriptedResponse::call("look", json!({})), ScriptedResponse::text("Done.")]);
    let other = both(named("expert", &expert), "expert").tool(ok_tool("look")).build().unwrap();
    let agent = both(named("triage", &caller("transfer")), "triage").tool(hands_to("expert"));
    let state = agent.handoff(other).build().unwrap().run("Go.").await.unwrap();
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded, ToolOutcome::Blocked]);
    let told: Vec<&str> = state.messages.iter().map(Message::text).collect();
    assert!(told.iter().any(|text| text.contains("triage")), "{told:?}");
    let of = |trigger| {
        let log = log.lock().unwrap();
        log.iter().filter(|(at, _)| *at == trigger).map(|(_, who)| *who).collect::<Vec<_>>()
    };
    // The call that the first one blocks reaches no other.
    assert_eq!(of(Trigger::BeforeToolUse), ["triage", "triage"]);
    assert_eq!(of(Trigger::BeforeStep), ["triage", "triage", "expert", "triage", "expert"]);
    assert_eq!(of(Trigger::AfterExecution), ["triage", "expert"]);
}

/// A child that sleeps in a tool for an hour, below a parent that calls it once.
fn below(child: impl FnOnce(AgentBuilder) -> AgentBuilder) -> (Arc<ScriptedModel>, AgentLoop) {
    let sleeper = caller("sleep");
    let inner = named("work", &sleeper).tool(slow_tool("sleep", Duration::from_secs(3_600)));
    let inner = child(inner).build().unwrap();
    let work = ScriptedResponse::call("work", json!({ "task": "Go." }));
    let parent = named("boss", &replies([work, ScriptedResponse::text("Done.")]));
    (sleeper, parent.tools([inner.as_tool("Works.")]).build().unwrap())
}

fn ten_seconds() -> Duration {
    Duration::from_secs(10)
}

/// Ends a run by its switch or its token, immediately or after ten seconds.
async fn end(at_first: bool, by_switch: bool, switch: &MemoryKillSwitch, token: &CancelToken) {
    if !at_first {
        tokio::time::sleep(ten_seconds()).await;
    }
    if by_switch {
        switch.turn_on("enough");
    } else {
        let signal = StopSignal::new(StopReason::UserRequested).with_message("enough");
        token.cancel(signal, Urgency::Now);
    }
}

#[tokio::test(start_paused = true)]
async fn the_switch_and_the_token_of_a_child_end_the_child_and_not_its_parent() {
    for at_first in [true, false] {
        for by_switch in [true, false] {
            let (switch, token) = (MemoryKillSwitch::new(), CancelToken::new());
            let (model, agent) =
                below(|child| child.kill_switch(switch.clone()).cancel_token(token.clone()));
            let end = end(at_first, by_switch, &switch, &token);
            let begun = Instant::now();
            let ((), state) = tokio::join!(end, agent.run("Go."));
            let state = state.unwrap();
            assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
            let told = state.messages[2].text();
            assert!(told.contains("enough"), "{told}");
            assert_eq!(model.calls(), u64::from(!at_first));
            assert!(begun.elapsed() < ten_seconds() + Duration::from_secs(1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_switch_and_the_token_of_an_agent_that_was_handed_to_end_the_run() {
    for (at_first, by_switch) in [(true, true), (true, false), (false, true), (false, false)] {
        let (switch, token) = (MemoryKillSwitch::new(), CancelToken::new());
        let sleeper = caller("sleep");
        let other = named("expert", &sleeper)
            .tool(slow_tool("sleep", Duration::from_secs(3_600)))
            .kill_switch(switch.clone())
            .cancel_token(token.clone())
            .build();
        let agent = named("triage", &caller("transfer")).tool(hands_to("expert"));
        let agent = agent.handoff(other.unwrap()).build().unwrap();
        let end = end(at_first, by_switch, &switch, &token);
        let begun = Instant::now();
        let ((), state) = tokio::join!(end, agent.run("Go."));
        let state = state.unwrap();
        assert_eq!(state.stop_reason(), Some(StopReason::UserRequested), "{}", state.explain());
        // The agent that began is not its business.
        assert_eq!((state.agent.as_str(), sleeper.calls()), ("expert", u64::from(!at_first)));
        assert!(begun.elapsed() < ten_seconds() + Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_could_not_bind_below_another_run_is_refused() {
    let none = || Budget::root(Limits { steps: Some(0), ..Limits::unlimited() });
    let (model, agent) = below(|child| child.budget(none()));
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((model.calls(), outcomes(&state)), (0, vec![ToolOutcome::Failed]));
    // One that the parent draws on as well binds.
    let shared = Budget::root(Limits { steps: Some(2), ..Limits::unlimited() });
    let child = named("work", &caller("look")).tool(ok_tool("look")).budget(shared.clone());
    let work = replies([ScriptedResponse::call("work", json!({ "task": "Go." }))]);
    let parent = named("boss", &work).tools([child.build().unwrap().as_tool("Works.")]);
    let state = parent.budget(shared.child(Limits::unlimited())).build().unwrap();
    assert_eq!(state.run("Go.").await.unwrap().step_count(), 2);
    assert_eq!(shared.settled().steps, 2);

    let other = || named("expert", &answerer("Yes.")).budget(shared.clone()).build().unwrap();
    let error = named("triage", &work).handoff(other()).build().unwrap_err();
    assert_eq!(error, BuildError::OtherBudget("triage".to_owned(), "expert".to_owned()));
    assert!(named("triage", &work).handoff(other()).budget(shared.clone()).build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn accounts_that_could_not_bind_below_another_run_are_refused() {
    let me = || Account::new("me", &["0 steps"]).unwrap();
    let of = |store: &Arc<MemoryBudgetStore>| {
        let set = AccountSet::new([me()]).unwrap();
        RunAccounts::new(Arc::<MemoryBudgetStore>::clone(store), set, &["me"], "test").unwrap()
    };
    let (store, other) = (Arc::default(), Arc::default());
    let (model, agent) = below(|child| child.accounts(of(&store)));
    let state = agent.run("Go.").await.unwrap();
    assert_eq!((model.calls(), outcomes(&state)), (0, vec![ToolOutcome::Failed]));

    let expert = || named("expert", &answerer("Yes.")).accounts(of(&store)).build().unwrap();
    let triage = || named("triage", &answerer("No.")).handoff(expert());
    let error = BuildError::OtherBudget("triage".to_owned(), "expert".to_owned());
    assert_eq!(triage().build().unwrap_err(), error);
    assert_eq!(triage().accounts(of(&other)).build().unwrap_err(), error);
    assert!(triage().accounts(of(&store)).build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_ten_seconds_for_a_store_of_budgets_that_is_away() {
    for (secs, reason) in [(3, StopReason::Completed), (20, StopReason::ErrorForbade)] {
        let store = FlakyStore::default();
        let set = AccountSet::new([Account::new("me", &["9 steps"]).unwrap()]).unwrap();
        let accounts = RunAccounts::new(Arc::new(store.clone()), set, &["me"], "test").unwrap();
        let agent = named("tested", &answerer("Yes.")).accounts(accounts).build().unwrap();
        store.fail(Some(away));
        let begun = Instant::now();
        let (state, ()) = tokio::join!(agent.run("Go."), async {
            tokio::time::sleep(Duration::from_secs(secs)).await;
            store.fail(None);
        });
        let state = state.unwrap();
        assert_eq!(state.stop_reason(), Some(reason), "{}", state.explain());
        assert!(begun.elapsed() <= Duration::from_secs(secs + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_paid_tool_waits_ten_seconds_for_a_store_of_budgets_that_is_away() {
    for (secs, outcome, reason) in [
        (3, ToolOutcome::Succeeded, StopReason::Completed),
        (20, ToolOutcome::NotExecuted, StopReason::ErrorForbade),
    ] {
        let store = FlakyStore::default();
        let set = AccountSet::new([Account::new("me", &["$9"]).unwrap()]).unwrap();
        let accounts = RunAccounts::new(Arc::new(store.clone()), set, &["me"], "test").unwrap();
        let fails = store.clone();
        let model = priced(|request, _| match replies_so_far(request) {
            0 => ScriptedResponse::call("look", json!({})).usage(100, 10),
            _ => ScriptedResponse::text("Done.").usage(100, 10),
        });
        let builder = named("tested", &model).accounts(accounts);
        // The outage begins between the model's reply and its tool call.
        let builder = builder.hook(Trigger::BeforeToolUse, 0, move |_| {
            fails.fail(Some(away));
            Ok(())
        });
        let agent = builder.tool(ok_tool("look").cost_at_most(usd("0.50"))).build().unwrap();
        let (state, ()) = tokio::join!(agent.run("Go."), async {
            tokio::time::sleep(Duration::from_secs(secs)).await;
            store.fail(None);
        });
        let state = state.unwrap();
        assert_eq!(outcomes(&state), [outcome], "{}", state.explain());
        assert_eq!(state.stop_reason(), Some(reason));
    }
}

/// A hook and a source that wait for an hour.
struct Hour;

impl Hook for Hour {
    fn call<'a>(&'a self, _: &'a mut HookContext<'_>) -> BoxFuture<'a, HookResult> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(())
        })
    }
}

impl CancellationSource for Hour {
    fn cancellation_signals<'a>(&'a self, _: &'a AgentState) -> BoxFuture<'a, Vec<StopSignal>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Vec::new()
        })
    }
}

/// How long a run with a switch, turned on after two seconds, and a limit of ten seconds takes.
async fn took(builder: AgentBuilder, throws: bool) -> (Duration, AgentState) {
    let switch = MemoryKillSwitch::new();
    let builder = builder.stop_when(condition("active >= 10s")).kill_switch(switch.clone());
    let agent = builder.tool(ok_tool("look")).build().unwrap();
    let begun = Instant::now();
    let throw = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        if throws {
            switch.turn_on("enough");
        }
    };
    let ((), state) = tokio::join!(throw, async {
        let state = agent.run("Go.").await.unwrap();
        (begun.elapsed(), state)
    });
    state
}

#[tokio::test(start_paused = true)]
async fn a_hook_or_a_source_that_waits_is_not_deaf() {
    let slow =
        ScriptedResponse::call("look", json!({})).usage(100, 10).delay(Duration::from_secs(1));
    let builder = || AgentLoop::builder("tested").model(replies([slow.clone()]));
    for trigger in Trigger::ALL.iter().copied() {
        // Hooks that begin after the end have some time; there may be an error, or not.
        let (least, most) = match trigger {
            Trigger::OnStop => (10, 10),
            Trigger::OnError => (0, 10),
            Trigger::AfterExecution => (3_600, 3_600),
            _ => (0, 0),
        };
        for (throws, secs) in [(true, 2), (false, 10)] {
            let builder = builder().hook_named(trigger, 0, "hour", Arc::new(Hour));
            let (took, state) = took(builder, throws).await;
            let what = format!("{trigger:?} {took:?}: {}", state.explain());
            assert!(took >= Duration::from_secs(secs + least), "{what}");
            assert!(took <= Duration::from_secs(secs + most + 1), "{what}");
            let reasons = [StopReason::TimeLimitReached, StopReason::UserRequested];
            assert_eq!(state.stop_reason(), Some(reasons[usize::from(throws)]), "{what}");
            assert_all_answered(&state);
        }
    }
    for (throws, secs) in [(true, 2), (false, 10)] {
        let (took, state) = took(builder().cancellation(Hour), throws).await;
        let expected = Duration::from_secs(secs);
        assert!(took >= expected && took <= expected + Duration::from_secs(1), "{took:?}");
        assert_eq!(state.steps().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cap_approves_no_rule_without_money() {
    let rules = "[stop]\nlimit = \"steps >= 6\"\n[pause]\nask = \"steps >= 2\"\n";
    let (model, person) = (caller("look"), Person::who_says([Approval::UpTo(usd("0.01"))]));
    let agent = || under(&model, rules).tool(ok_tool("look"));
    let asking = agent().approver(person.clone()).build().unwrap();
    let state = asking.run("Go.").await.unwrap();
    assert_eq!((state.status(), person.asked().len(), model.calls()), (Status::Paused, 1, 2));
    assert!(state.steps()[1].errors[0].contains("`ask` is not approved"), "{:?}", state.steps()[1]);
    let state = carried(&state).approved(Some(usd("0.01")));
    let state = agent().build().unwrap().execute(state).await.unwrap();
    assert_eq!((state.status(), model.calls()), (Status::Paused, 2), "{}", state.explain());
    let state = agent().build().unwrap().execute(carried(&state).approved(None)).await.unwrap();
    assert_eq!((state.status(), model.calls()), (Status::Stopped, 6), "{}", state.explain());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_for_the_store_is_cut_and_the_run_goes_on() {
    let long = FunctionTool::without_arguments("long", "Long.", |_| async {
        Ok::<_, ToolError>(format!("a{}", "é".repeat(20 << 20)))
    });
    let model = replies([
        ScriptedResponse::call("long", json!({})).usage(1, 1),
        ScriptedResponse::text("Done."),
    ]);
    let agent = agent(&model, "steps >= 4").tool(long).store(Arc::new(MemoryStore::new()));
    let state = agent.build().unwrap().run("Go.").await.unwrap();
    assert_eq!(state.final_response(), Some("Done."), "{}", state.explain());
    let told = state.messages[2].text();
    assert!(told.len() > 1 << 20 && told.len() < (1 << 20) + 100, "{}", told.len());
    assert!(told.ends_with("é\n[Cut: these are the first 1048576 of 41943041 bytes.]"));
}
