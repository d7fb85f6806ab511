//! A gateway that stands still while a kill is made: nothing that it had, or gets later, reaches the model.

use super::*;

/// A scripted model in a separate process, which counts the calls that reach it.
struct Model {
    process: Child,
    address: String,
}

impl Model {
    fn start(machine: &Machine) -> Self {
        let mut command = machine.command(&["sim", "--listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_once("http://").unwrap().1.split([',', ' ', '\n']).next();
        Self { process, address: address.unwrap().trim().to_owned() }
    }

    fn calls(&self) -> u64 {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = "GET /sim/stats HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let answer = rest(stream);
        let stats: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        stats["calls"].as_u64().unwrap()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_gateway_that_stands_still_during_a_kill_sends_no_call_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let machines: Vec<_> = (0..4).map(|number| Machine::new("frozen", number)).collect();
    let model = Model::start(&machines[3]);
    let upstream = format!("http://{}", model.address);
    // Calls that reserve check the epoch of the kill in the store; the others rely on the lease of their gateway.
    for (round, limits) in [["--steps", "100"], ["--budget", "$5 per day"]].iter().enumerate() {
        let words = [&["--upstream", &upstream, "--stop-with", "error"][..], limits].concat();
        // Gateways that ended are silent ones of their namespace for a while.
        let store = format!("{}?namespace=frozen-{round}", server.url());
        let gateways: Vec<_> =
            machines[..2].iter().map(|machine| machine.serve(&store, &words)).collect();
        let name = |call: &str| format!("{call}-{round}");
        for gateway in &gateways {
            let answer = gateway.call(&name(&format!("begun-{}", gateway.child.id())));
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let frozen = &gateways[1];
        let signal = |signal: &str| {
            let pid = frozen.child.id().to_string();
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        };
        signal("-STOP");
        // The system takes these connections; the gateway reads them when it continues.
        let begun = name(&format!("begun-{}", frozen.child.id()));
        let mut waiting: Vec<_> =
            (0..5).map(|call| frozen.begin(&name(&format!("w{call}")), "gpt-4o", false)).collect();
        waiting.push(frozen.begin(&begun, "gpt-4o", false));
        let mut kill = machines[2].command(&["kill", "--all", "--why", "bill", "--budget-store"]);
        let said = text(&kill.arg(&store).output().unwrap());
        assert!(said.contains("no call is admitted by 1 process\n"), "{said}");
        assert!(said.contains("1 process has not confirmed"), "{said}");
        let served = model.calls();
        signal("-CONT");
        waiting
            .extend((0..5).map(|call| frozen.begin(&name(&format!("l{call}")), "gpt-4o", false)));
        for answer in waiting.into_iter().map(rest) {
            assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        assert_eq!(model.calls(), served, "no call has reached the model");
    }
}
