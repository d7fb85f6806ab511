//! Parallel conversations of one run, and sub-agents that are named.

use endstop_core::run::Status;
use endstop_core::signal::StopReason;
use endstop_gateway::Gateway;

use crate::fake::{Fake, json};
use crate::kit::*;

const CHAT: &str = "/v1/chat/completions";
const KID: &str = "/r/run-1/kid/v1/chat/completions";

/// Calls `look` with the same arguments forever.
async fn repeating() -> Fake {
    Fake::start(|_, n| json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))).await
}

/// One turn of each of this many conversations; stopped ones have the reason.
async fn turn(gateway: &Gateway, agents: &mut [Agent]) -> Vec<Option<String>> {
    let mut reasons = Vec::new();
    for agent in agents {
        let got = chat(gateway, &agent.request()).await;
        agent.take(&got, "nothing new");
        reasons.push(got.header("x-endstop-reason"));
    }
    reasons
}

fn agents(count: usize) -> Vec<Agent> {
    (0..count).map(|at| Agent::new(&format!("Branch {at}."))).collect()
}

#[tokio::test]
async fn parallel_conversations_are_no_sub_agents() {
    let upstream = repeating().await;
    let policy = "[stop]\nlimit = \"subagents >= 2 or depth >= 1 or steps >= 9\"\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agents = agents(4);
    for _ in 0..2 {
        assert_eq!(turn(&gateway, &mut agents).await, [None, None, None, None]);
    }
    assert_eq!((reading(&gateway, "steps"), reading(&gateway, "subagents")), (8, 0));
    assert_eq!(reading(&gateway, "tool_calls"), 8);
}

#[tokio::test]
async fn a_named_child_is_a_sub_agent() {
    let upstream = repeating().await;
    let policy = "[stop]\nlimit = \"subagents >= 1\"\nbound = \"steps >= 9\"\n";
    let gateway = gateway(policy, &upstream).await;
    let first = post(&gateway, KID, &Agent::new("Look there.").request()).await;
    assert!(first.header("x-endstop-reason").is_none(), "{first:?}");
    assert_eq!(reading(&gateway, "subagents"), 1);
}

#[tokio::test]
async fn repeats_of_a_conversation_beside_the_first_stop_the_run() {
    let upstream = repeating().await;
    let policy = "[stop]\nlimit = \"repeats >= 3 or steps >= 50\"\n";
    let gateway = gateway(policy, &upstream).await;
    // The first conversation ends in a tool call without a result.
    chat(&gateway, &Agent::new("Call the final answer.").request()).await;
    let answers = Agent::new("Look.").run_same(&gateway, CHAT).await;
    let last = answers.last().unwrap();
    assert_eq!(last.header("x-endstop-reason").as_deref(), Some("no_progress"), "{last:?}");
    assert_eq!((answers.len(), upstream.calls()), (5, 5));
    assert_eq!(status(&gateway), Status::Stopped);
    let reason = gateway.run(&id()).unwrap().look(|run| run.stop_reason());
    assert_eq!(reason, Some(StopReason::NoProgress));
}

#[tokio::test]
async fn repeats_of_a_named_child_stop_it_alone() {
    let upstream = repeating().await;
    let policy = "[stop]\nlimit = \"repeats >= 3 or steps >= 50\"\n";
    let gateway = gateway(policy, &upstream).await;
    let answers = Agent::new("Look.").run_same(&gateway, KID).await;
    let last = answers.last().unwrap();
    assert_eq!(last.header("x-endstop-reason").as_deref(), Some("no_progress"), "{last:?}");
    let again = post(&gateway, KID, &Agent::new("Look.").request()).await;
    assert_eq!(again.header("x-endstop-reason").as_deref(), Some("no_progress"), "{again:?}");
    assert_eq!((status(&gateway), upstream.calls()), (Status::InProgress, 4));
    let main = chat(&gateway, &Agent::new("Go on.").request()).await;
    assert!(main.header("x-endstop-reason").is_none(), "{main:?}");
}

#[tokio::test]
async fn the_wrap_up_is_given_to_whichever_conversation_comes_next() {
    let upstream = Fake::start(|request, n| {
        if request.body.contains("This is your last turn") {
            return json("200 OK", &reply_text("What I have."));
        }
        json("200 OK", &reply_call(&format!("call_{n}"), "look", "{}"))
    })
    .await;
    let policy = "[stop]\nlimit = \"steps >= 50\"\n[finish]\nwrap = \"steps >= 3\"\n";
    let gateway = gateway(policy, &upstream).await;
    let mut agents = agents(6);
    let reasons = turn(&gateway, &mut agents).await;
    let limit = Some("steps_limit".to_owned());
    assert_eq!(reasons, [None, None, None, None, limit.clone(), limit]);
    assert_eq!(upstream.calls(), 4);
    assert!(upstream.seen()[3].body.contains("Branch 3."), "{:?}", upstream.seen()[3]);
    let reason = gateway.run(&id()).unwrap().look(|run| run.stop_reason());
    assert_eq!((status(&gateway), reason), (Status::Stopped, Some(StopReason::StepsLimitReached)));
}
