//! The measured gateways: one row for each, and how it is started.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::peers;
use super::process::{Launch, free_address};
use super::{Built, Place};

/// A gateway.
#[derive(Debug)]
pub(super) struct Subject {
    /// Its name on the command line and in the tables.
    pub(super) name: &'static str,
    /// Builds or installs it, and says how it is started; or why it is skipped.
    pub(super) prepare: fn(&Place) -> Result<Launch, String>,
}

/// Every gateway, in the order of the tables. The first is none: the clients call the upstream.
pub(super) const SUBJECTS: &[Subject] = &[
    Subject { name: "direct", prepare: |_| Ok(Launch::default()) },
    Subject { name: "endstop", prepare: endstop },
    Subject { name: "endstop-before", prepare: |place| endstop_before(place).map(per_connection) },
    Subject { name: "endstop-shared", prepare: endstop_shared },
    Subject { name: "endstop-shared-before", prepare: endstop_before },
    Subject { name: "nginx", prepare: nginx },
    Subject { name: "litellm", prepare: peers::litellm },
    Subject { name: "portkey", prepare: peers::portkey },
];

/// Today's gateways, each with the same one of an earlier revision.
pub(super) const OURS: [(&str, &str); 2] =
    [("endstop", "endstop-before"), ("endstop-shared", "endstop-shared-before")];

/// Whether it is a gateway of an earlier revision. It runs if one is named.
pub(super) fn is_before(name: &str) -> bool {
    OURS.iter().any(|(_, before)| *before == name)
}

/// A run for each connection, as agents have.
fn endstop(place: &Place) -> Result<Launch, String> {
    endstop_shared(place).map(per_connection)
}

fn per_connection(shared: Launch) -> Launch {
    Launch { path: Some("/r/bench-{connection}/v1/chat/completions"), ..shared }
}

/// All connections draw on one run.
fn endstop_shared(place: &Place) -> Result<Launch, String> {
    serve(place, program(place)?)
}

/// The same, of an earlier revision.
fn endstop_before(place: &Place) -> Result<Launch, String> {
    let program = place.before.clone();
    serve(place, program.ok_or("neither --against nor --binary-before names an earlier one")?)
}

fn serve(place: &Place, program: PathBuf) -> Result<Launch, String> {
    let address = free_address()?;
    let line = format!(
        "serve --listen {address} --unnamed shared --upstream http://{} --usd 1000000 --steps 100000000 --quiet",
        place.upstream
    );
    Ok(Launch {
        program: Some(program),
        arguments: line.split(' ').map(str::to_owned).collect(),
        address: Some(address),
        ..Launch::default()
    })
}

/// The command `endstop`, built if it has to be.
fn program(place: &Place) -> Result<PathBuf, String> {
    match &place.built {
        Built::Before(path) if path.exists() => return Ok(path.clone()),
        Built::Before(path) => return Err(format!("there is no {}", path.display())),
        Built::Here => {}
    }
    let built = Command::new("cargo")
        .args(["build", "--release", "-p", "endstop-cli", "--target-dir"])
        .arg(place.root.join("target"))
        .current_dir(&place.root)
        .status();
    if built.is_ok_and(|status| status.success()) {
        Ok(place.root.join("target/release/endstop"))
    } else {
        Err("it does not build".to_owned())
    }
}

/// The relay that everything is compared with; its package is unpacked, not installed.
fn nginx(place: &Place) -> Result<Launch, String> {
    let directory = place.directory.join("nginx");
    let program = peers::nginx_program(&directory)?;
    let address = free_address()?;
    let mut places = String::new();
    for what in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        places.push_str(&format!("{what}_temp_path {}/{what};\n", directory.display()));
    }
    let configuration = format!(
        "daemon off;\nworker_processes 1;\nworker_rlimit_nofile 8192;\npid {directory}/pid;\n\
         error_log stderr warn;\nevents {{ worker_connections 4096; }}\n\
         http {{\naccess_log off;\n{places}keepalive_requests 1000000000;\n\
         upstream model {{ server {upstream}; keepalive 1024; keepalive_requests 1000000000; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://model; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_buffering off; }} }}\n}}\n",
        directory = directory.display(),
        upstream = place.upstream,
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, configuration).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Launch {
        program: Some(program),
        arguments: vec!["-c".to_owned(), file.display().to_string()],
        address: Some(address),
        ..Launch::default()
    })
}
