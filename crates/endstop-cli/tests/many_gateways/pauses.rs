//! A call that waits for room in a budget, by the clock of Redis.

use super::*;

/// Set each night: the shortest window takes a minute.
const LONG: &str = "ENDSTOP_LONG_WAITS";

#[test]
fn a_call_waits_until_a_call_of_another_gateway_has_left_the_window() {
    if std::env::var_os(LONG).is_none() {
        return;
    }
    let Some(server) = RedisServer::start() else { return };
    let gateways = [0, 1].map(|number| {
        let machine = Machine::new("waits", number);
        let config = machine.0.join("config.toml");
        let budget = "[budget.me]\nlimit = \"1 steps per rolling 1m\"\non_full = \"pause\"\n";
        std::fs::write(&config, budget).unwrap();
        let limits = ["--upstream", "sim", "--steps", "9", "--budget", "me"];
        machine.serve_with(config.to_str().unwrap(), &server.url(), &limits)
    });
    let is_served =
        |answer: &str| answer.starts_with("HTTP/1.1 200") && !answer.contains("x-endstop-reason");
    let begun = Instant::now();
    let first = gateways[0].call("first");
    assert!(is_served(&first), "{first}");
    let second = gateways[1].call("second");
    assert!(is_served(&second), "{second}");
    assert!(begun.elapsed() >= Duration::from_secs(60), "{:?}", begun.elapsed());
}
