//! Keys that gateways on many machines share: a change on one machine holds at the next call on every other.

use super::*;

const SERVE: [&str; 5] = ["--upstream", "sim", "--steps", "100", "--keys"];

/// The outcome of `endstop key` on a machine that shares a store: whether it succeeds, and what it prints.
fn key(machine: &Machine, store: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = machine.command(&[&["key"], arguments].concat());
    let output = command.env("ENDSTOP_BUDGET_STORE", store).output().unwrap();
    (output.status.success(), text(&output))
}

/// A new key.
fn issue(machine: &Machine, store: &str, arguments: &[&str]) -> String {
    let (is_done, said) = key(machine, store, &[&["new"], arguments].concat());
    let key = said.lines().next().unwrap_or_default().to_owned();
    assert!(is_done && key.starts_with("endstop_"), "{said}");
    key
}

/// The answer to a call with a key.
fn call(gateway: &Gateway, key: &str, run: &str) -> String {
    let body = json!({
        "model": "gpt-4o", "max_tokens": 20, "messages": [{ "role": "user", "content": "hi" }],
    });
    let body = body.to_string();
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    let head = format!(
        "POST /r/{run}/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    rest(stream)
}

fn is_admitted(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200") && !answer.contains("x-endstop-reason")
}

fn machines(test: &str) -> Vec<Machine> {
    (0..3).map(|number| Machine::new(test, number)).collect()
}

/// A gateway on each of the first two machines.
fn serve(machines: &[Machine], store: &str) -> Vec<Gateway> {
    machines[..2].iter().map(|machine| machine.serve(store, &SERVE)).collect()
}

#[test]
fn a_key_that_one_machine_issues_changes_or_revokes_is_so_at_the_next_call_on_every_other() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys"));
    let alice = issue(&machines[2], &store, &["alice"]);
    let gateways = serve(&machines, &store);
    let all =
        |key: &str, run: &str| gateways.iter().map(|it| call(it, key, run)).collect::<Vec<_>>();
    assert!(all(&alice, "alice-1").iter().all(|answer| is_admitted(answer)));

    // Issued while they run, limited, and limited no longer.
    let bob = issue(&machines[0], &store, &["bob"]);
    assert!(all(&bob, "bob-1").iter().all(|answer| is_admitted(answer)));
    let set = |options: &[&str]| key(&machines[2], &store, &[&["set", "bob"], options].concat());
    assert!(set(&["--budget", "0 steps"]).0);
    for answer in all(&bob, "bob-2") {
        assert!(answer.contains("x-endstop-reason: steps_limit"), "{answer}");
    }
    assert!(set(&["--budget", "none", "--models", "o3"]).0);
    for answer in all(&bob, "bob-3") {
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    assert!(set(&["--models", "all"]).0);
    assert!(all(&bob, "bob-3").iter().all(|answer| is_admitted(answer)));

    let revoke = ["revoke", "alice", "--why", "left the team"];
    assert_eq!(key(&machines[1], &store, &revoke), (true, "alice: revoked\n".to_owned()));
    for answer in all(&alice, "alice-1") {
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("the key `alice` is revoked"), "{answer}");
    }
    let (is_done, new) = key(&machines[1], &store, &["rotate", "bob"]);
    let new = new.lines().next().unwrap().to_owned();
    assert!(is_done && all(&bob, "bob-1").iter().all(|it| it.contains("has replaced it")));
    assert!(all(&new, "bob-1").iter().all(|answer| is_admitted(answer)));

    // Every machine lists the same, with who did what and why, and the store has no key.
    let lists: Vec<String> =
        machines.iter().map(|machine| key(machine, &store, &["list", "--json"]).1).collect();
    assert!(lists.iter().all(|list| *list == lists[0]), "{lists:?}");
    let listed: Value = serde_json::from_str(&lists[0]).unwrap();
    assert_eq!(listed["keys"][0]["changed"]["why"], "left the team");
    let stored = server.send(&["HGETALL {endstop:default}:keys"]);
    assert!(stored.contains("\"sha256\"") && !stored.contains(&new[8..]), "{stored}");
    assert!(!machines[2].0.join("endstop/keys.jsonl").exists(), "no file is written");
}

#[test]
fn without_the_store_of_the_keys_every_call_is_refused_and_with_it_back_revoked_keys_still_are() {
    let Some(mut server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-away"));
    let alice = issue(&machines[2], &store, &["alice"]);
    let bob = issue(&machines[2], &store, &["bob"]);
    let gateways = serve(&machines, &store);
    assert!(is_admitted(&call(&gateways[0], &alice, "alice-1")));
    assert!(key(&machines[2], &store, &["revoke", "bob"]).0);
    server.kill();
    for gateway in &gateways {
        for (key, run) in [(&*alice, "alice-1"), (&*bob, "bob-1"), ("sk-own", "free")] {
            let answer = call(gateway, key, run);
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("the store of the keys is away"), "{answer}");
            assert!(answer.to_ascii_lowercase().contains("retry-after: "), "{answer}");
        }
    }
    let (is_done, said) = key(&machines[2], &store, &["revoke", "alice"]);
    assert!(!is_done && said.contains("is away"), "{said}");
    server.restart();
    for gateway in &gateways {
        until("the store is back", || is_admitted(&call(gateway, &alice, "alice-1")));
        assert!(call(gateway, &bob, "bob-1").starts_with("HTTP/1.1 401"));
    }
    // A store that has lost its keys admits no call: a run of `alice` is not free for all.
    server.send(&["DEL {endstop:default}:keys", "HDEL {endstop:default}:meta keys"]);
    for gateway in &gateways {
        let answer = call(gateway, "sk-own", "alice-1");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
}

#[test]
fn a_key_of_a_later_version_is_refused_by_its_name_and_left_as_it_is() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-later"));
    let alice = issue(&machines[2], &store, &["alice"]);
    let bob = issue(&machines[2], &store, &["bob"]);
    let gateways = serve(&machines, &store);
    let known = server.send(&["HGET {endstop:default}:keys alice"]);
    let later = known.lines().nth(1).unwrap().replace("\"version\":1", "\"version\":2");
    assert!(later.contains("\"version\":2"), "{later}");
    let written = format!("HSET {{endstop:default}}:keys alice '{later}'");
    server.send(&[&written, "HINCRBY {endstop:default}:meta keys 1"]);
    for gateway in &gateways {
        let answer = call(gateway, &alice, "alice-1");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("cannot read what the key `alice` may do"), "{answer}");
        assert!(is_admitted(&call(gateway, &bob, "bob-1")));
    }
    assert!(machines[0].errors().contains("`alice` are refused: a later version wrote it"));
    for act in ["revoke", "rotate"] {
        let (is_done, said) = key(&machines[2], &store, &[act, "alice"]);
        assert!(!is_done && said.contains("a later version wrote it"), "{said}");
    }
    assert!(!key(&machines[2], &store, &["new", "alice"]).0, "the name is taken");
    assert!(key(&machines[2], &store, &["set", "bob", "--usd", "5"]).0);
    let (_, listed) = key(&machines[2], &store, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert!(listed.to_string().contains("\"unread\""), "{listed}");
    assert!(server.send(&["HGET {endstop:default}:keys alice"]).contains(&later));
}

#[test]
fn a_store_that_refuses_is_not_said_to_be_away() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-refused"));
    let alice = issue(&machines[2], &store, &["alice"]);
    let gateways = serve(&machines, &store);
    server.send(&["HSET {endstop:default}:meta format 2"]);
    for gateway in &gateways {
        let answer = call(gateway, &alice, "alice-1");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("cannot read its keys"), "{answer}");
    }
    let errors = machines[0].errors();
    assert!(errors.contains("no call is taken until the keys can be read"), "{errors}");
    server.send(&["HSET {endstop:default}:meta format 1"]);
    for gateway in &gateways {
        until("the store can be used", || is_admitted(&call(gateway, &alice, "alice-1")));
    }
}

#[test]
fn a_damaged_key_opens_its_runs_to_no_caller_without_a_key() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-damaged"));
    let _ = issue(&machines[2], &store, &["alice"]);
    let bob = issue(&machines[2], &store, &["bob"]);
    let gateways = serve(&machines, &store);
    assert!(is_admitted(&call(&gateways[0], "sk-own", "free")));
    for damaged in ["{", "{\"version\":1,\"name\":\"alice\",\"runs\":[\"ci-*\"]}", "\\xff\\xfe"] {
        // In these quotes the client of the server reads escapes.
        let quoted = damaged.replace('"', "\\\"");
        let written = format!("HSET {{endstop:default}}:keys alice \"{quoted}\"");
        server.send(&[&written, "HINCRBY {endstop:default}:meta keys 1"]);
        for gateway in &gateways {
            for run in ["alice", "alice-1", "ci-1"] {
                let answer = call(gateway, "sk-own", run);
                assert!(answer.starts_with("HTTP/1.1 401"), "{damaged} {run}: {answer}");
            }
            assert!(is_admitted(&call(gateway, &bob, "bob-1")), "{damaged}");
        }
    }
}

#[test]
fn of_keys_that_many_machines_issue_at_once_none_is_lost_and_each_name_is_issued_once() {
    let Some(server) = RedisServer::start() else { return };
    let store = server.url();
    let machines: Vec<_> = (0..4).map(|number| Machine::new("keys-many", number)).collect();
    let issued: usize = thread::scope(|scope| {
        let workers: Vec<_> = machines
            .iter()
            .enumerate()
            .map(|(number, machine)| {
                let store = &store;
                scope.spawn(move || {
                    let new = |name: &str| key(machine, store, &["new", name]).0;
                    for own in 0..4 {
                        assert!(new(&format!("own-{number}-{own}")));
                    }
                    (0..3).filter(|one| new(&format!("one-{one}"))).count()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(issued, 3);
    let (_, listed) = key(&machines[0], &store, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<&str> = listed["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 4 * 4 + 3, "{names:?}");
}

#[test]
fn a_gateway_does_not_start_with_a_store_that_has_no_key_and_a_named_file_comes_first() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machine) = (server.url(), Machine::new("keys-none", 0));
    let mut command = machine.command(&["serve", "--listen", "127.0.0.1:0"]);
    let output = command.args(SERVE).env("ENDSTOP_BUDGET_STORE", &store).output().unwrap();
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("has no key") && said.contains("issues the first key"), "{said}");
    let file = machine.0.join("keys.jsonl");
    let file = file.to_str().unwrap();
    let alice = issue(&machine, &store, &["alice", "--keys", file]);
    let (_, listed) = key(&machine, &store, &["list"]);
    assert!(listed.contains("no key is issued"), "{listed}");
    let gateway = machine.serve(&store, &[&SERVE[..], &[file]].concat());
    assert!(is_admitted(&call(&gateway, &alice, "alice-1")));
}

#[test]
fn keys_are_issued_listed_and_rotated_by_the_clock_of_their_store() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-clock"));
    // The time of the store never runs backwards: from here on it is this one.
    let put_ahead = |hours: u64| {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let then = since + u128::from(hours * 3_600_000);
        server.send(&[&format!("HSET {{endstop:default}}:meta latest {then}")]);
    };
    let status = || {
        let listed: Value =
            serde_json::from_str(&key(&machines[1], &store, &["list", "--json"]).1).unwrap();
        listed["keys"][0]["status"].as_str().unwrap().to_owned()
    };
    issue(&machines[2], &store, &["first"]);
    put_ahead(1);
    let alice = issue(&machines[2], &store, &["alice", "--expires", "30m"]);
    let gateways = serve(&machines, &store);
    assert_eq!(status(), "valid");
    assert!(is_admitted(&call(&gateways[0], &alice, "alice-1")));
    let (is_done, said) = key(&machines[2], &store, &["set", "alice", "--expires", "40m"]);
    assert!(is_done && is_admitted(&call(&gateways[1], &alice, "alice-1")), "{said}");
    put_ahead(3);
    assert_eq!(status(), "expired");
    assert!(call(&gateways[0], &alice, "alice-1").starts_with("HTTP/1.1 401"));
    let (is_done, said) = key(&machines[2], &store, &["rotate", "alice"]);
    assert!(!is_done && said.contains("the key `alice` has expired"), "{said}");
    let (is_done, said) = key_at(&machines[2], &gateways[1], "secret", &["rotate", "alice"]);
    assert!(!is_done && said.contains("the key `alice` has expired"), "{said}");
}

/// The outcome of `endstop key` on a machine that knows no store, at the address of a gateway.
fn key_at(machine: &Machine, gateway: &Gateway, token: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = machine.command(&[&["key"], arguments].concat());
    let server = format!("http://{}", gateway.control);
    command.args(["--server", &server, "--token-env", "TOKEN"]).env("TOKEN", token);
    let output = command.output().unwrap();
    (output.status.success(), text(&output))
}

#[test]
fn keys_are_changed_over_an_address_as_they_are_on_the_machine_itself() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-server"));
    let bob = issue(&machines[0], &store, &["bob", "--models", "gpt-*", "--expires", "90d"]);
    let gateways = serve(&machines, &store);
    let at = |arguments: &[&str]| {
        let (is_done, said) = key_at(&machines[2], &gateways[0], "secret", arguments);
        assert!(is_done, "{arguments:?}: {said}");
        said
    };
    let is_same = || {
        let here = key(&machines[1], &store, &["list", "--json"]).1;
        assert_eq!(at(&["list", "--json"]), here);
        assert_eq!(at(&["list"]), key(&machines[1], &store, &["list"]).1);
    };
    is_same();

    let ci = at(&["new", "ci", "--runs", "one", "--usd", "20"]);
    let ci = ci.lines().next().unwrap();
    assert!(is_admitted(&call(&gateways[1], ci, "ci")));
    is_same();
    assert_eq!(
        at(&["set", "ci", "--budget", "0 steps"]),
        "ci: valid, the run ci, budget 0 steps, $20\n"
    );
    assert!(call(&gateways[1], ci, "ci").contains("x-endstop-reason: steps_limit"));
    assert_eq!(at(&["set", "ci", "--budget", "none"]), "ci: valid, the run ci\n");
    let new = at(&["rotate", "bob", "--why", "in a log"]);
    let new = new.lines().next().unwrap();
    assert!(call(&gateways[1], &bob, "bob-1").starts_with("HTTP/1.1 401"));
    assert!(is_admitted(&call(&gateways[1], new, "bob-1")));
    assert_eq!(at(&["revoke", "bob", "--why", "left"]), "bob: revoked\n");
    assert!(call(&gateways[1], new, "bob-1").contains("the key `bob` is revoked"));
    is_same();
    let listed: Value = serde_json::from_str(&at(&["list", "--json"])).unwrap();
    let changed = &listed["keys"][0]["changed"];
    assert_eq!(changed["why"], "left");
    assert!(changed["by"].as_str().unwrap().contains("(endstop, process "), "{changed}");
}

#[test]
fn what_is_refused_of_keys_over_an_address_is_refused_by_the_machine_itself_in_the_same_words() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machines) = (server.url(), machines("keys-refused"));
    for name in ["bob", "ci"] {
        issue(&machines[0], &store, &[name]);
    }
    assert!(key(&machines[0], &store, &["revoke", "bob"]).0);
    let gateways = serve(&machines, &store);
    let (is_done, said) = key_at(&machines[2], &gateways[0], "wrong", &["list"]);
    assert!(!is_done && said.contains("does not take the token of"), "{said}");
    for (arguments, problem) in [
        (&["new", "ci"][..], "the key `ci` exists"),
        (&["new", "a*"], "cannot name a key"),
        (&["new", "x", "--budget", "team-b"], "no budget `team-b`"),
        (&["revoke", "bob"], "is revoked already"),
        (&["rotate", "bob"], "the key `bob` is revoked"),
        (&["set", "zoe", "--usd", "1"], "no key `zoe`"),
        (&["revoke", "../runs"], "no key `../runs`"),
    ] {
        let (is_done, said) = key_at(&machines[2], &gateways[0], "secret", arguments);
        assert!(!is_done && said.contains(problem), "{arguments:?}: {said}");
        let (is_done, said) = key(&machines[1], &store, arguments);
        assert!(!is_done && said.contains(problem), "{arguments:?}: {said}");
    }
    // The statuses that programs see.
    let ask = |method: &str, path: &str, body: &str| {
        rest(gateways[0].send(&gateways[0].control, method, path, body))
    };
    for (method, path, body, status) in [
        ("GET", "/endstop/v1/keys", "", 200),
        ("PUT", "/endstop/v1/keys", "", 405),
        ("POST", "/endstop/v1/keys", "{\"name\": \"y\", \"limit\": \"$5\"}", 400),
        ("POST", "/endstop/v1/keys", "{\"name\": \"ci\"}", 409),
        ("POST", "/endstop/v1/keys/zoe/revoke", "", 404),
        ("POST", "/endstop/v1/keys/ci/other", "", 404),
        ("POST", "/endstop/v1/keys/ci/set", "{\"usd\": 0.5}", 200),
    ] {
        let answer = ask(method, path, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {answer}");
    }
}

#[test]
fn a_gateway_changes_the_keys_of_its_file_over_its_address_and_one_without_keys_has_none() {
    let Some(server) = RedisServer::start() else { return };
    let (store, machine) = (server.url(), Machine::new("keys-file", 0));
    let file = machine.0.join("keys.jsonl");
    let file = file.to_str().unwrap();
    let alice = issue(&machine, &store, &["alice", "--keys", file]);
    let gateway = machine.serve(&store, &[&SERVE[..], &[file]].concat());
    assert!(is_admitted(&call(&gateway, &alice, "alice-1")));
    let path = "/endstop/v1/keys/alice/revoke";
    let answer = rest(gateway.send(&gateway.control, "POST", path, ""));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"revoked\""), "{answer}");
    assert!(call(&gateway, &alice, "alice-1").starts_with("HTTP/1.1 401"));
    let written = std::fs::read_to_string(file).unwrap();
    assert!(written.contains("\"by\":\"the control API\""), "{written}");
    let free = Machine::new("keys-file", 1);
    let free = free.serve(&store, &SERVE[..4]);
    let answer = rest(free.send(&free.control, "GET", "/endstop/v1/keys", ""));
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("--keys"), "{answer}");
}
