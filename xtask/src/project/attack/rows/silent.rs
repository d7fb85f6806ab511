//! The upstream does not tell what it bills, or tells something else.

use serde_json::{Value, json};

use super::bodies::{self, CHAT, MESSAGES, honest};
use super::{Client, Expected, Row};
use crate::project::attack::assumption::Assumption;
use crate::project::attack::bill::{Arrival, Work};
use crate::project::attack::reply;
use crate::project::attack::upstream::{Sent, Serve, Serving};

/// A chat whose model thinks until its cap, which no client sees.
const fn hidden(name: &'static str, what: &'static str, serve: Serve) -> Row {
    Row {
        name,
        what,
        limit: 100,
        tries: 60,
        client: Client::Reads,
        frees_errors: false,
        path: CHAT,
        request: |_| bodies::chat(json!({})).to_string(),
        serve,
        expected: Expected::Bounded,
    }
}

/// The same, asked for as a stream.
const fn streamed(row: Row) -> Row {
    Row { request: |_| bodies::chat(json!({ "stream": true })).to_string(), ..row }
}

/// Reasoning until the cap.
fn thought(arrival: &Arrival) -> Work {
    Work { input: arrival.tokens(), output: arrival.cap(), ..Work::default() }
}

fn silence(arrival: &Arrival, _: u64) -> Serving {
    Serving { work: thought(arrival), sent: Sent::Silence(Vec::new()) }
}

fn broken(arrival: &Arrival, _: u64) -> Serving {
    Serving { work: thought(arrival), sent: Sent::Broken(Vec::new()) }
}

fn with_status(arrival: &Arrival, status: &str, body: &str) -> Serving {
    Serving { work: thought(arrival), sent: Sent::Whole(reply::whole(status, "", body)) }
}

/// An answer with all of its tokens, changed.
fn with_change(arrival: &Arrival, headers: &str, change: impl Fn(&mut Value)) -> Serving {
    let work = thought(arrival);
    let mut body = reply::chat(work.input, work.output);
    change(&mut body);
    Serving { work, sent: Sent::Whole(reply::whole("200 OK", headers, &body.to_string())) }
}

/// Tokens that are on their way when a stream is closed at once.
const AFTER_CLOSING: u64 = 256;

const OWN_ERROR: &str = r#"{"error":{"message":"busy","type":"server_error"}}"#;

/// Text of N tokens, one for each byte.
fn dense(tokens: usize) -> String {
    "Q".repeat(tokens)
}

fn cut_stream(arrival: &Arrival) -> Serving {
    let input = arrival.tokens();
    let work = Work { input, output: 200, ..Work::default() };
    Serving { work, sent: Sent::Broken(reply::stream(&[reply::message_start(input)])) }
}

pub(super) const ROWS: &[Row] = &[
    Row { client: Client::Leaves, ..hidden("client-leaves", "its client leaves", silence) },
    Row {
        client: Client::ReadsUntilTimeout,
        ..hidden("answer-timeout", "it never answers (`--answer-within`)", silence)
    },
    hidden("reset-before-answer", "the connection breaks before the first byte", broken),
    hidden("reset-in-answer", "the connection breaks inside the answer", |arrival, _| {
        let head =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{";
        Serving { work: thought(arrival), sent: Sent::Broken(head.to_vec()) }
    }),
    hidden("status-504", "it answers 504", |arrival, _| {
        with_status(arrival, "504 Gateway Timeout", OWN_ERROR)
    }),
    streamed(hidden("status-504-stream", "it answers a stream with 504", |arrival, _| {
        with_status(arrival, "504 Gateway Timeout", OWN_ERROR)
    })),
    hidden("status-408", "it answers 408", |arrival, _| {
        with_status(arrival, "408 Request Timeout", OWN_ERROR)
    }),
    hidden("status-502", "it answers 502", |arrival, _| {
        with_status(arrival, "502 Bad Gateway", OWN_ERROR)
    }),
    hidden("foreign-500", "it answers 500 in its own shape", |arrival, _| {
        with_status(arrival, "500 Internal Server Error", "<html>oops</html>")
    }),
    streamed(hidden(
        "foreign-500-stream",
        "it answers a stream with 500 in its own shape",
        |a, _| with_status(a, "500 Internal Server Error", "<html>oops</html>"),
    )),
    hidden("no-usage", "it reports no usage", |arrival, _| {
        with_change(arrival, "", |body| reply::put(body, &["usage"], Value::Null))
    }),
    Row {
        limit: 5,
        ..hidden("cost-of-zero", "it reports `usage.cost: 0`", |arrival, _| {
            with_change(arrival, "", |body| reply::put(body, &["usage", "cost"], json!(0)))
        })
    },
    Row {
        limit: 5,
        ..hidden("feigned-stop", "its answers have the header `x-endstop-reason`", |arrival, _| {
            with_change(arrival, "x-endstop-reason: cost_limit\r\n", |_| {})
        })
    },
    Row {
        name: "cut-streams",
        what: "streams of Anthropic break after `message_start`",
        tries: 20,
        path: MESSAGES,
        request: |_| {
            let content = dense(160_000);
            let messages = json!([{ "role": "user", "content": content }]);
            bodies::messages(json!({ "stream": true, "messages": messages })).to_string()
        },
        serve: |arrival, _| cut_stream(arrival),
        ..hidden("", "", broken)
    },
    Row {
        name: "compaction",
        what: "Anthropic summarizes first (`usage.iterations`)",
        limit: 5,
        tries: 20,
        path: MESSAGES,
        request: |_| {
            let management = json!({ "edits": [{ "type": "compact_20260112" }] });
            bodies::messages(json!({ "context_management": management })).to_string()
        },
        serve: |arrival, _| {
            let (input, output) = (arrival.tokens(), arrival.cap());
            let part =
                |kind| json!({ "type": kind, "input_tokens": input, "output_tokens": output });
            let mut body = reply::messages(input, output);
            reply::put(
                &mut body,
                &["usage", "iterations"],
                json!([part("compaction"), part("message")]),
            );
            let work = Work { input: 2 * input, output: 2 * output, ..Work::default() };
            Serving { work, sent: Sent::Whole(reply::ok(&body)) }
        },
        ..hidden("", "", broken)
    },
    Row {
        expected: Expected::GoesOn,
        frees_errors: true,
        ..hidden(
            "own-errors",
            "two of three are 500 or 529 in the API's own shape, and free (`--server-errors free`)",
            |arrival, number| {
                if number % 3 == 2 {
                    return honest(reply::chat, arrival.tokens(), 20);
                }
                let status = ["500 Internal Server Error", "529 Overloaded"];
                let status = status.get(usize::from(number % 2 == 1)).copied().unwrap_or_default();
                let sent = Sent::Whole(reply::whole(status, "", OWN_ERROR));
                Serving { work: Work::default(), sent }
            },
        )
    },
    Row {
        expected: Expected::RestsOn(Assumption::ErrorsAreFree),
        frees_errors: true,
        ..hidden(
            "billed-errors",
            "it bills for errors in the API's own shape (`--server-errors free`)",
            |arrival, _| with_status(arrival, "500 Internal Server Error", OWN_ERROR),
        )
    },
    hidden("proxy-errors", "a proxy's errors in the API's own shape are billed", |arrival, _| {
        with_status(arrival, "500 Internal Server Error", OWN_ERROR)
    }),
    hidden("proxy-inner-errors", "a proxy's errors inside status 200 are billed", |arrival, _| {
        with_status(arrival, "200 OK", OWN_ERROR)
    }),
    Row {
        expected: Expected::RestsOn(Assumption::ReportsAreTrue),
        ..hidden("false-usage", "it bills more tokens than it reports", |arrival, _| Serving {
            work: thought(arrival),
            ..honest(reply::chat, 10, 10)
        })
    },
    Row {
        limit: 10,
        client: Client::Leaves,
        request: |_| bodies::chat(json!({ "stream": true })).to_string(),
        ..hidden("stream-ends", "its client leaves a stream, and it stops soon", |arrival, _| {
            let work = Work { output: arrival.cap().min(AFTER_CLOSING), ..thought(arrival) };
            Serving { work, sent: Sent::Silence(Vec::new()) }
        })
    },
    Row {
        client: Client::Leaves,
        request: |_| bodies::chat(json!({ "stream": true })).to_string(),
        expected: Expected::RestsOn(Assumption::ClosedStreamsEnd),
        ..hidden("stream-goes-on", "its client leaves a stream, and it continues", silence)
    },
];
