//! A backup of Redis that is restored, as the guide says: what was spent since then is added by hand.

use super::*;

const BUDGET: [&str; 2] = ["--budget", "$5 per month"];

/// The outcome of `endstop budget …` on a machine that shares a store.
fn budget(machine: &Machine, store: &str, arguments: &[&str]) -> Output {
    let mut command = machine.command(&[&["budget"][..], arguments, &BUDGET].concat());
    command.env("ENDSTOP_BUDGET_STORE", store).output().unwrap()
}

/// The spend that the budget has counted once nothing is in flight, in pico-dollars.
fn spent(machine: &Machine, store: &str) -> u64 {
    let mut spent = 0;
    until("settled", || {
        let output = budget(machine, store, &["me", "--json"]);
        let shown: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let limit = &shown["budgets"][0]["limits"][0];
        spent = picos(&limit["spent"]);
        picos(&limit["held"]) == 0
    });
    spent
}

#[test]
fn a_backup_is_restored_and_the_spend_since_then_is_added() {
    let Some(mut server) = RedisServer::start_with(&[]) else { return };
    let (store, machine) = (server.url(), Machine::new("backup", 0));
    let limits = [&["--upstream", "sim", "--usd", "1"][..], &BUDGET].concat();
    let gateway = machine.serve(&store, &limits);
    let calls = |gateway: &Gateway, run: &str| {
        let answer = gateway.call(run);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    calls(&gateway, "one");
    let saved = spent(&machine, &store);
    let backup = server.back_up();
    calls(&gateway, "one");
    calls(&gateway, "two");
    let all = spent(&machine, &store);
    assert!(saved > 0 && all > saved, "{saved} {all}");
    drop(gateway);
    server.kill();
    server.restore(&backup);
    assert_eq!(spent(&machine, &store), saved);
    let lost = all - saved;
    let amount = format!("+{}.{:012}", lost / 1_000_000_000_000, lost % 1_000_000_000_000);
    let adjusted = budget(&machine, &store, &["adjust", "me", &amount, "--why", "restored"]);
    assert!(adjusted.status.success(), "{}", text(&adjusted));
    assert_eq!(spent(&machine, &store), all);
    // Runs continue where the backup has them, and the functions of the library are in it.
    let later = machine.serve(&store, &limits);
    assert_eq!(later.run("one")["report"]["totals"]["steps"], 1);
    calls(&later, "one");
    assert!(spent(&machine, &store) > all);
}
