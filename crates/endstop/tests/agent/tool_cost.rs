//! A tool's own cost: reserved before the call begins, settled with it, counted for the run and its ancestors.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endstop::agent::{AgentBuilder, AgentLoop, AgentState, Approval};
use endstop::core::run::{Run, Status};
use endstop::core::signal::StopReason;
use endstop::core::units::Money;
use endstop::core::wire::v1::trace::{Kind, Line};
use endstop::ledger::{Amounts, Budget, Limits};
use endstop::message::{Message, ToolOutcome};
use endstop::model::{ModelRequest, ScriptedModel, ScriptedResponse};
use endstop::observe::{Observation, Observer, Report, Reporter};
use endstop::runtime::trace::Replay;
use endstop::store::{MemoryStore, RunId, Store};
use endstop::tool::{FunctionTool, ToolContext, ToolError, ToolOutput};
use serde_json::json;

use crate::kit::*;
use crate::support::*;

/// A cost limit; the model itself costs nothing.
fn limited(limit: &str) -> String {
    let free = "on_unpriced = { input = \"$0/M\", output = \"$0/M\" }\n[stop]\n";
    format!("{free}money = \"cost >= ${limit}\"\nsteps = \"steps >= 50\"\n")
}

/// Calls `buy` so often in the first reply of a run, and then answers.
fn buying(
    calls: usize,
) -> impl Fn(&ModelRequest<'_>, u64) -> ScriptedResponse + Send + Sync + 'static {
    move |request, _| {
        if replies_so_far(request) > 0 {
            return ScriptedResponse::text("Done.").usage(100, 20);
        }
        let first = ScriptedResponse::text("On it.").usage(100, 20);
        (0..calls).fold(first, |reply, _| reply.tool_call("buy", json!({})))
    }
}

/// A model without a price that does so.
fn buyer(calls: usize) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_fn("scripted", buying(calls)))
}

/// A tool that costs what it says, after some time.
#[derive(Clone, Default)]
struct Shop {
    ran: Arc<AtomicU64>,
}

impl Shop {
    fn tool(&self, reported: Option<&str>) -> FunctionTool {
        let ran = Arc::clone(&self.ran);
        let reported = reported.map(usd);
        FunctionTool::without_arguments("buy", "Buys.", move |_| {
            let nth = ran.fetch_add(1, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(100 + nth)).await;
                let output = ToolOutput::text(format!("bought {nth}"));
                Ok::<_, ToolError>(ToolOutput { cost: reported, ..output })
            }
        })
    }

    fn ran(&self) -> u64 {
        self.ran.load(Ordering::SeqCst)
    }
}

/// Runs an agent, and gives its state with the report of its run.
async fn run(agent: AgentBuilder) -> (AgentState, Report) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&reports);
    let reporter = Reporter::new(move |report| list.lock().unwrap().push(report.clone()));
    let state = agent.observer(reporter).build().unwrap().run("Go.").await.unwrap();
    let report = reports.lock().unwrap().pop().unwrap();
    assert_eq!(report.held, Amounts::ZERO);
    assert_all_answered(&state);
    (state, report)
}

fn answers(state: &AgentState) -> String {
    let of = |message: &Message| match message {
        Message::Tool { text, .. } => Some(text.clone()),
        _ => None,
    };
    state.messages.iter().filter_map(of).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_declared_cost_that_does_not_fit_is_refused_and_the_run_stops() {
    for (limit, ran) in [("0.50", 1), ("0.499999999999", 0)] {
        let (shop, model) = (Shop::default(), buyer(1));
        let tool = shop.tool(None).cost_at_most(usd("0.50"));
        let (state, report) = run(under(&model, &limited(limit)).tool(tool)).await;
        assert_eq!(shop.ran(), ran, "{limit}");
        assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached), "{limit}");
        assert_eq!(state.cost(), Some(usd(if ran == 1 { "0.50" } else { "0" })));
        assert_eq!(report.totals.tool_calls, ran);
        assert_eq!(report.overshoot, Amounts::ZERO);
        if ran == 0 {
            assert_eq!((model.calls(), outcomes(&state)), (1, vec![ToolOutcome::Refused]));
            let told = answers(&state);
            assert!(told.contains("`money` is cost >= $0.499999999999"), "{told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_reaches_a_token_limit_has_its_paid_tools_run_too() {
    let model = priced(|_, _| {
        let reply = ScriptedResponse::call("buy", json!({})).tool_call("look", json!({}));
        // The most that the limit admits.
        reply.usage(7_990, 10)
    });
    let rules = "[stop]\nlimit = \"tokens >= 8_000 or cost >= $9\"\n";
    let shop = Shop::default();
    let agent = under(&model, rules).tool(ok_tool("look")).max_output_tokens(40);
    let (state, _) = run(agent.tool(shop.tool(None).cost_at_most(usd("0.50")))).await;
    // A token limit is the model's: it does not prevent a paid tool.
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded; 2], "{}", state.explain());
    assert_eq!((shop.ran(), state.stop_reason()), (1, Some(StopReason::TokenLimitReached)));
}

#[tokio::test(start_paused = true)]
async fn tokens_beyond_what_was_held_do_not_hold_a_paid_tool_back() {
    // The provider reports more than any bound of the request.
    let model = priced(|_, _| ScriptedResponse::call("buy", json!({})).usage(50_000, 10));
    let rules = "[stop]\nlimit = \"tokens >= 8_000 or cost >= $9\"\n";
    let shop = Shop::default();
    let agent = under(&model, rules).max_output_tokens(40);
    let (state, report) = run(agent.tool(shop.tool(None).cost_at_most(usd("0.50")))).await;
    assert_eq!(report.overshoot.tokens, 42_010);
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded], "{}", state.explain());
    assert_eq!((shop.ran(), state.stop_reason()), (1, Some(StopReason::TokenLimitReached)));
    // One that would pass a cost limit is refused as before.
    let model = priced(|_, _| ScriptedResponse::call("buy", json!({})).usage(50_000, 10));
    let shop = Shop::default();
    let rules = "[stop]\nlimit = \"tokens >= 8_000 or cost >= $0.40\"\n";
    let agent = under(&model, rules).max_output_tokens(40);
    let (state, _) = run(agent.tool(shop.tool(None).cost_at_most(usd("0.50")))).await;
    assert_eq!((shop.ran(), outcomes(&state)), (0, vec![ToolOutcome::Refused]));
}

#[tokio::test(start_paused = true)]
async fn next_cost_reads_what_a_tool_call_declares() {
    for (limit, ran) in [("0.50", 0), ("0.500000000001", 2)] {
        let (shop, model) = (Shop::default(), priced(buying(2)));
        let rules = format!("[stop]\nsteps = \"steps >= 5\"\ndear = \"next_cost >= ${limit}\"\n");
        let tool = shop.tool(None).cost_at_most(usd("0.50"));
        // In parallel: the hold of one call is not the cost of the other.
        let agent = under(&model, &rules).tool(tool).parallel_tools(2).max_output_tokens(40);
        let (state, report) = run(agent).await;
        assert_eq!((shop.ran(), report.totals.tool_calls), (ran, ran), "{limit}");
        if ran == 0 {
            assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
            let told = answers(&state);
            assert!(told.contains("`dear` is next_cost >= $0.50"), "{told}");
        } else {
            assert_eq!(state.status(), Status::Completed, "{}", state.explain());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_before_a_dear_tool_call() {
    let rules = "[stop]\nsteps = \"steps >= 5\"\n[pause]\nask = \"next_cost >= $0.50\"\n";
    let (shop, model) = (Shop::default(), priced(buying(1)));
    let tool = shop.tool(None).cost_at_most(usd("0.50"));
    let person = Person::who_says([Approval::Yes]);
    let agent = under(&model, rules).tool(tool).approver(person.clone());
    let (state, _) = run(agent.max_output_tokens(40)).await;
    assert_eq!(person.asked(), [["ask"]], "{}", state.explain());
    assert_eq!((state.status(), shop.ran()), (Status::Completed, 1), "{}", state.explain());
}

#[tokio::test(start_paused = true)]
async fn the_free_tools_of_a_batch_run_after_an_overshoot() {
    let batch = ScriptedResponse::call("buy", json!({})).tool_call("look", json!({}));
    let model = replies([batch.tool_call("buy", json!({}))]);
    let shop = Shop::default();
    let tool = shop.tool(Some("0.80")).cost_at_most(usd("0.50"));
    let agent = under(&model, &limited("0.60")).tool(tool).tool(ok_tool("look"));
    let (state, _) = run(agent.parallel_tools(1)).await;
    let told = [ToolOutcome::Succeeded, ToolOutcome::Succeeded, ToolOutcome::Refused];
    assert_eq!(outcomes(&state), told, "{}", state.explain());
    assert_eq!((shop.ran(), state.stop_reason()), (1, Some(StopReason::CostLimitReached)));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_charged_what_it_reports_and_else_what_is_declared() {
    for (declared, reported, cost) in [
        (Some("0.50"), Some("0.20"), "0.40"),
        (Some("0.50"), Some("0"), "0"),
        (Some("0.50"), None, "1.00"),
        (None, Some("0.20"), "0.40"),
        (None, None, "0"),
        (Some("0"), Some("0.20"), "0.40"),
    ] {
        let tool = Shop::default().tool(reported);
        let tool = match declared {
            Some(most) => tool.cost_at_most(usd(most)),
            None => tool,
        };
        let budget = Budget::root(Limits::unlimited());
        let agent = under(&buyer(2), &limited("9.00")).tool(tool).budget(budget.clone());
        let (state, report) = run(agent).await;
        let what = format!("{declared:?} {reported:?}");
        assert_eq!(state.status(), Status::Completed, "{what}");
        assert_eq!((state.cost(), budget.settled().cost), (Some(usd(cost)), usd(cost)), "{what}");
        assert_eq!((report.spend.usd, report.spend.unconfirmed_calls), (usd(cost).to_decimal(), 0));
        // The model's part is as without such tools.
        assert_eq!((report.totals.attempts, report.totals.tokens), (2, 240), "{what}");
        assert_eq!(budget.settled().attempts, 2, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_was_declared_is_settled_in_full_and_ends_the_run_before_its_next_request() {
    let model = buyer(1);
    let tool = Shop::default().tool(Some("0.80")).cost_at_most(usd("0.50"));
    let (state, report) = run(under(&model, &limited("0.60")).tool(tool)).await;
    assert_eq!((state.cost(), model.calls()), (Some(usd("0.80")), 1));
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
    assert_eq!(report.overshoot, Amounts { cost: usd("0.20"), ..Amounts::ZERO });
    assert_eq!(outcomes(&state), [ToolOutcome::Succeeded]);
}

/// The most money that was settled and held together at any event.
#[derive(Clone, Default)]
struct Committed(Arc<AtomicU64>);

impl Observer for Committed {
    fn observe(&self, observation: &Observation<'_>) {
        let committed = observation.budget.committed().cost.picos();
        self.0.fetch_max(committed, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_parallel_batch_never_passes_the_limit() {
    for calls in 1..7_usize {
        for (limit, declared, reported) in [
            ("1.00", "0.40", None),
            ("1.00", "0.40", Some("0.10")),
            ("1.00", "0.25", None),
            ("1.00", "0.90", Some("0.05")),
            ("0.30", "0.40", Some("0.01")),
        ] {
            let (shop, most) = (Shop::default(), Committed::default());
            let tool = shop.tool(reported).cost_at_most(usd(declared));
            let agent = under(&buyer(calls), &limited(limit)).tool(tool).parallel_tools(8);
            let (state, report) = run(agent.observer(most.clone())).await;
            let what = format!("{calls} calls, {limit}, {declared}, {reported:?}");
            // Begun one after the other, so many fit.
            let (each, mut fits, mut spent) = (usd(reported.unwrap_or(declared)).picos(), 0, 0);
            while fits < calls as u64 && spent + usd(declared).picos() <= usd(limit).picos() {
                (fits, spent) = (fits + 1, spent + each);
            }
            assert_eq!(shop.ran(), fits, "{what}: {}", state.explain());
            assert_eq!(state.cost(), Some(Money::from_picos(spent)), "{what}");
            assert!(most.0.load(Ordering::SeqCst) <= usd(limit).picos(), "{what}");
            assert_eq!(report.overshoot, Amounts::ZERO, "{what}");
            let refused = outcomes(&state).contains(&ToolOutcome::Refused);
            assert_eq!(refused, fits < calls as u64, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_side_by_side_hold_their_cost_each() {
    let most = Committed::default();
    let tool = Shop::default().tool(Some("0.10")).cost_at_most(usd("0.40"));
    let agent = under(&buyer(2), &limited("1.00")).tool(tool).parallel_tools(2);
    run(agent.observer(most.clone())).await;
    assert_eq!(most.0.load(Ordering::SeqCst), usd("0.80").picos());
}

#[tokio::test(start_paused = true)]
async fn a_sub_agents_tool_costs_its_parent_too() {
    // The child's own limit is higher: its parent's refuses.
    for (limit, ran) in [("1.20", 2), ("5.00", 3)] {
        let shop = Shop::default();
        let tool = shop.tool(None).cost_at_most(usd("0.50"));
        let child = under(&buyer(3), &limited("9.00")).tool(tool).parallel_tools(1);
        let root = replies([
            ScriptedResponse::call("tested", json!({ "task": "buy" })),
            ScriptedResponse::text("Done."),
        ]);
        let root = AgentLoop::builder("root").model(root).policy(policy(&limited(limit)));
        let root = root.tools([child.build().unwrap().as_tool("Buys.")]);
        let (state, report) = run(root).await;
        assert_eq!(shop.ran(), ran, "{limit}: {}", state.explain());
        assert_eq!(state.cost(), Some(Money::from_picos(ran * 500_000_000_000)));
        let reason = if ran == 2 { StopReason::CostLimitReached } else { StopReason::Completed };
        assert_eq!(state.stop_reason(), Some(reason), "{limit}");
        assert_eq!(report.sub_agents[0].spend.usd, state.cost().unwrap().to_decimal());
    }
}

/// How a call of `buy` ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Fails,
    SaysItFailed,
    Panics,
    TimesOut,
    Never,
    RunsOn,
}

fn ending(ends: Ends, says: Option<Money>) -> FunctionTool {
    let tool =
        FunctionTool::without_arguments("buy", "Buys.", move |context: ToolContext| async move {
            if let Some(cost) = says {
                context.report_cost(cost);
            }
            match ends {
                Ends::Fails => return Err(ToolError::failed("no luck")),
                Ends::Panics => panic!("no luck"),
                Ends::SaysItFailed => {}
                _ => std::future::pending().await,
            }
            Ok(ToolOutput { is_failed: true, ..ToolOutput::text("no luck") })
        });
    match ends {
        Ends::TimesOut => tool.timeout(Duration::from_secs(1)),
        Ends::RunsOn => tool.not_abortable(),
        _ => tool,
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_or_is_aborted_is_charged_what_it_reported_or_its_declared_cost() {
    let all =
        [Ends::Fails, Ends::SaysItFailed, Ends::Panics, Ends::TimesOut, Ends::Never, Ends::RunsOn];
    for ends in all {
        for says in [None, Some(usd("0.02"))] {
            let tool = ending(ends, says).cost_at_most(usd("0.05"));
            let rules = format!("{}time = \"active >= 5s\"\n", limited("1.00"));
            let (state, report) = run(under(&buyer(1), &rules).tool(tool)).await;
            let cost = says.unwrap_or(usd("0.05"));
            assert_eq!(state.cost(), Some(cost), "{ends:?} {says:?}: {}", state.explain());
            let unconfirmed = if says.is_none() { usd("0.05") } else { Money::ZERO };
            assert_eq!(report.spend.unconfirmed_usd, unconfirmed, "{ends:?} {says:?}");
            assert_eq!(report.spend.unconfirmed_calls, u64::from(says.is_none()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_future_is_dropped_charges_the_calls_in_flight() {
    let budget = Budget::root(Limits::unlimited());
    let tool = ending(Ends::Never, None).cost_at_most(usd("0.05"));
    let agent = under(&buyer(2), &limited("1.00")).tool(tool).budget(budget.clone());
    let agent = agent.parallel_tools(2).build().unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(9), agent.run("Go.")).await;
    assert!(ended.is_err());
    assert_eq!((budget.settled().cost, budget.held()), (usd("0.10"), Amounts::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_shared_budget_refuses_a_tool_like_a_model_call() {
    let budget = Budget::root(Limits { cost: Some(usd("0.70")), ..Limits::unlimited() });
    let shop = Shop::default();
    let tool = shop.tool(None).cost_at_most(usd("0.50"));
    let agent = under(&buyer(2), &limited("9.00")).tool(tool).parallel_tools(1);
    let (state, _) = run(agent.budget(budget.clone())).await;
    assert_eq!((shop.ran(), budget.settled().cost), (1, usd("0.50")));
    assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
    assert!(answers(&state).contains("Not run"), "{}", answers(&state));
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_before_a_paid_tool_begins() {
    let shop = Shop::default();
    let rules = format!("{}[pause]\nask = \"cost >= $0.40\"\n", limited("9.00"));
    let person = Person::who_says([Approval::Yes]);
    let tool = shop.tool(None).cost_at_most(usd("0.50"));
    let agent = under(&buyer(2), &rules).tool(tool).parallel_tools(1).approver(person.clone());
    let (state, _) = run(agent).await;
    assert_eq!(person.asked(), [["ask"]]);
    assert_eq!((shop.ran(), state.cost()), (2, Some(usd("1.00"))));
}

/// A run of parallel and single paid calls, one of which fails and one overshoots, in a tree.
fn spree() -> AgentBuilder {
    let mut batch = ScriptedResponse::text("On it.").usage(100, 20);
    for tool in ["buy", "buy", "lose", "help"] {
        batch = batch.tool_call(tool, json!({ "task": "x" }));
    }
    let model =
        ScriptedModel::from_fn("scripted", move |request, _| match replies_so_far(request) {
            0 | 1 => batch.clone(),
            _ => ScriptedResponse::text("Done.").usage(100, 20),
        });
    let child = buyer(2);
    let child = AgentLoop::builder("help").model(child).stop_when(condition("steps >= 5"));
    let child = child.tool(Shop::default().tool(Some("0.30")).cost_at_most(usd("0.20")));
    let lose = FunctionTool::without_arguments("lose", "Loses.", |_| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        Err::<&str, _>(ToolError::failed("no luck"))
    });
    let agent = under(&Arc::new(model), &limited("90.00")).parallel_tools(4);
    let agent = agent.tool(Shop::default().tool(Some("0.10")).cost_at_most(usd("0.40")));
    let agent = agent.tool(lose.cost_at_most(usd("0.07")));
    agent.tools([child.build().unwrap().as_tool("Helps.")])
}

/// Two batches: twice $0.10, a failure of $0.07, and twice $0.30 of the sub-agent.
const SPREE: &str = "1.74";

#[tokio::test(start_paused = true)]
async fn the_replay_of_every_trace_gives_the_same_cost() {
    let (runs, status) = crate::record::check(spree(), "paid tools").await;
    assert_eq!((runs, status), (3, Status::Completed));
    let (state, report) = run(spree()).await;
    assert_eq!(state.cost(), Some(usd(SPREE)));
    assert_eq!(report.spend.unconfirmed_usd, usd("0.14"));
}

async fn trace(store: &dyn Store, id: &RunId) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let page = store.read_trace(id, lines.len() as u64).await.unwrap();
        if page.is_empty() {
            return lines;
        }
        lines.extend(page);
    }
}

fn begun() -> AgentState {
    let mut state = AgentState::of_run(RunId::parse("a-run").unwrap());
    state.messages.push(Message::user("Go."));
    state
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_saved_at_any_event_counts_the_same() {
    let store = MemoryStore::new();
    let agent = spree().store(Arc::new(store.clone())).build().unwrap();
    let ended = agent.execute(begun()).await.unwrap();
    assert_eq!(ended.cost(), Some(usd(SPREE)));
    let lines = trace(&store, &ended.id).await;
    let program = Arc::clone(agent.program());
    let (mut reserved, mut charged) = (0, 0);
    for place in 0..lines.len() {
        // Calls that a process left open when it died here are charged their declared cost.
        let mut replay = Replay::new(Arc::clone(&program));
        lines[..=place].iter().for_each(|line| replay.take_line(line.as_bytes()).unwrap());
        let line: Line<'_> = serde_json::from_str(&lines[place]).unwrap();
        match &line.kind {
            Kind::ToolReserve { cost, .. } => reserved += cost.picos(),
            Kind::ToolCost { tool, cost } => {
                let declared = match &**tool {
                    "lose" => "0.07",
                    _ if line.descendant => "0.20",
                    _ => "0.40",
                };
                reserved -= usd(declared).picos();
                charged += cost.picos();
            }
            _ => {}
        }
        // Announced, and not begun, is not charged.
        let open = match &line.kind {
            Kind::ToolReserve { cost, .. } => reserved - cost.picos(),
            _ => reserved,
        };
        let replayed = replay.finish();
        assert_eq!(replayed.spent().cost.picos(), charged + open, "{place}: {}", lines[place]);
        assert_eq!(replayed.run().cost(), Some(replayed.spent().cost), "{place}");
        // The events that it adds close the trace once.
        let mut again = Replay::new(Arc::clone(&program));
        lines[..=place].iter().for_each(|line| again.take_line(line.as_bytes()).unwrap());
        replayed.added().iter().for_each(|event| again.observe(event));
        let again = again.finish();
        assert_eq!((again.spent(), again.added().len()), (replayed.spent(), 0), "{place}");
        // A saved run goes on to the same end.
        let mut run = Run::new(Arc::clone(&program));
        let take = |run: &mut Run, line: &String| {
            run.observe(&serde_json::from_str::<Line<'_>>(line).unwrap().as_event());
        };
        lines[..=place].iter().for_each(|line| take(&mut run, line));
        let mut run = Run::restore(Arc::clone(&program), &run.save().unwrap()).unwrap();
        lines[place + 1..].iter().for_each(|line| take(&mut run, line));
        assert_eq!(run.cost(), Some(usd(SPREE)), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_anywhere_and_resumed_loses_no_cost() {
    for cut in (0..700).step_by(23) {
        let store = MemoryStore::new();
        let agent = || spree().store(Arc::new(store.clone())).build().unwrap();
        let cut = Duration::from_millis(cut);
        if tokio::time::timeout(cut, agent().execute(begun())).await.is_ok() {
            continue;
        }
        let id = RunId::parse("a-run").unwrap();
        let before = match agent().load(&id).await {
            Ok(state) => state.cost().unwrap(),
            // It was cut before it was saved first.
            Err(_) => continue,
        };
        assert_eq!(agent().load(&id).await.unwrap().cost(), Some(before), "{cut:?}: charged once");
        let state = agent().resume(&id).await.unwrap();
        assert_eq!(state.final_response(), Some("Done."));
        let cost = state.cost().unwrap();
        // A batch that was aborted runs again, and costs what its calls declare or reported.
        assert!(cost >= usd(SPREE) && cost >= before, "{cut:?}: {cost}");
        assert!(cost <= usd("3.21"), "{cut:?}: {cost}");
    }
}
