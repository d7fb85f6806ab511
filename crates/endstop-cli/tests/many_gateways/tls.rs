//! A gateway and a kill over TLS, with the rights of the user in the guide.

use super::*;

#[test]
fn a_gateway_and_a_kill_use_tls_with_the_rights_of_the_guide() {
    let machine = Machine::new("tls", 0);
    let file = |name: &str| machine.0.join(name).to_str().unwrap().to_owned();
    let hosts = vec!["127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(hosts).unwrap();
    std::fs::write(file("redis.pem"), certified.cert.pem()).unwrap();
    std::fs::write(file("redis.key"), certified.signing_key.serialize_pem()).unwrap();
    let (certificate, key) = (file("redis.pem"), file("redis.key"));
    let Some((server, port)) = RedisServer::start_tls(&certificate, &key) else { return };
    let guide = include_str!("../../../../docs/guide/many-gateways.md");
    let user = guide.lines().find(|line| line.starts_with("ACL SETUSER ")).unwrap();
    let added = server.send(&[&user.replace("PASSWORD", "s3cret")]);
    assert!(added.starts_with("+OK"), "{added}");
    let at = format!("127.0.0.1:{port}/0?namespace=prod&ca={certificate}");
    let store = format!("rediss://endstop:s3cret@{at}");

    let limits = ["--upstream", "sim", "--steps", "100", "--budget", "$5 per day"];
    let gateway = machine.serve(&store, &limits);
    let answer = gateway.call("one");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_ne!(gateway.run("one")["status"], "stopped");
    let kill = |store: &str| {
        let words = ["kill", "one", "--why", "bill", "--budget-store", store];
        Machine::new("tls", 1).command(&words).output().unwrap()
    };
    let said = text(&kill(&store));
    assert_eq!(said, "no call of run `one` is admitted by 1 process\n");
    gateway.call("one");
    assert_eq!(gateway.run("one")["status"], "stopped");
    // It could ask for everything that it says at start, and the server loses nothing.
    let errors = machine.errors();
    assert!(!errors.contains("restart of the server") && !errors.contains("NOPERM"), "{errors}");
    assert!(!errors.contains("s3cret"), "{errors}");

    let refused = kill(&format!("rediss://endstop:wrong@{at}"));
    let said = text(&refused);
    assert!(!refused.status.success() && !said.contains("wrong@"), "{said}");
}
