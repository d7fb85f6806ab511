//! Tools of the provider, with their own fees and input, and members that change the price.

use serde_json::{Value, json};

use super::bodies::{self, CHAT, GEMINI, MESSAGES, RESPONSES};
use super::{Client, Expected, Row};
use crate::project::attack::bill::{Arrival, DOLLAR, Work};
use crate::project::attack::reply;
use crate::project::attack::upstream::{Sent, Serving};

/// Tokens that the model reads after each run of a tool: a context window.
const READ: u64 = 200_000;
/// How often a tool runs where nothing limits it.
const RUNS: u64 = 30;
/// How often the tools without their own limit run at most.
const UNLIMITED_RUNS: u64 = 5;
/// How often Anthropic asks the model again.
const ROUNDS: u64 = 10;
/// A search of Anthropic's and OpenAI's.
const SEARCH: u64 = DOLLAR / 100;
/// An image of the tool that makes them, in high quality.
const IMAGE: u64 = DOLLAR / 4;

/// How often a tool runs by the request that has arrived.
fn runs_of(arrival: &Arrival) -> u64 {
    let request: Value = serde_json::from_str(&arrival.body).unwrap_or_default();
    let of_tool = request.pointer("/tools/0/max_uses");
    let of_all = of_tool.or_else(|| request.get("max_tool_calls"));
    of_all.and_then(Value::as_u64).unwrap_or(RUNS)
}

/// The tool has run so often, the model has read much each time, and each run has its fee; the answer reports all.
fn read_much(
    make: fn(u64, u64) -> Value,
    arrival: &Arrival,
    runs: u64,
    fee: u64,
    report: fn(&mut Value, u64),
) -> Serving {
    let input = arrival.tokens() + runs * READ;
    let mut body = make(input, 100);
    report(&mut body, runs);
    let work = Work { input, output: 100, fees: runs * fee, ..Work::default() };
    Serving { work, sent: Sent::Whole(reply::ok(&body)) }
}

/// Puts so many searches before the output of OpenAI's responses.
fn put_searches(body: &mut Value, runs: u64) {
    let search = json!({ "type": "web_search_call", "id": "ws", "status": "completed",
        "action": { "type": "search", "query": "a" } });
    let mut output = vec![search; usize::try_from(runs).unwrap_or_default()];
    output.extend(body.get("output").and_then(Value::as_array).cloned().unwrap_or_default());
    reply::put(body, &["output"], json!(output));
}

const BASE: Row = Row {
    name: "",
    what: "",
    limit: 5,
    tries: 10,
    client: Client::Reads,
    frees_errors: false,
    path: MESSAGES,
    request: |_| String::new(),
    serve: |arrival, _| {
        read_much(reply::messages, arrival, runs_of(arrival).min(ROUNDS), 0, |_, _| {})
    },
    expected: Expected::Bounded,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "image-tool",
        what: "a tool of the provider makes images (`image_generation`)",
        path: RESPONSES,
        request: |_| {
            bodies::responses(json!({ "tools": [{ "type": "image_generation" }] })).to_string()
        },
        serve: |arrival, _| read_much(reply::responses, arrival, 1, IMAGE, |_, _| {}),
        expected: Expected::Refused(402, "--allow-unmetered=image_generation`"),
        ..BASE
    },
    Row {
        name: "search",
        what: "searches on the web without a limit of their number",
        limit: 500,
        request: |_| {
            let tools = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
            bodies::messages(json!({ "tools": tools })).to_string()
        },
        serve: |arrival, _| {
            read_much(
                reply::messages,
                arrival,
                runs_of(arrival).min(ROUNDS),
                SEARCH,
                |body, runs| {
                    reply::put(
                        body,
                        &["usage", "server_tool_use"],
                        json!({ "web_search_requests": runs }),
                    );
                },
            )
        },
        ..BASE
    },
    Row {
        name: "search-cut",
        what: "streams with searches on the web break after `message_start`",
        limit: 500,
        request: |_| {
            let tools = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
            bodies::messages(json!({ "stream": true, "tools": tools })).to_string()
        },
        serve: |arrival, _| {
            let runs = runs_of(arrival).min(ROUNDS);
            let serving = read_much(reply::messages, arrival, runs, SEARCH, |_, _| {});
            let begun = reply::stream(&[reply::message_start(arrival.tokens())]);
            Serving { sent: Sent::Broken(begun), ..serving }
        },
        ..BASE
    },
    Row {
        name: "responses-search",
        what: "searches on the web in OpenAI's responses, without a limit",
        limit: 500,
        path: RESPONSES,
        request: |_| bodies::responses(json!({ "tools": [{ "type": "web_search" }] })).to_string(),
        serve: |arrival, _| {
            read_much(reply::responses, arrival, runs_of(arrival), SEARCH, put_searches)
        },
        ..BASE
    },
    Row {
        name: "fetch",
        limit: 2_000,
        what: "pages of the web, read by the provider, without a limit of their number",
        request: |_| {
            let tools = json!([{ "type": "web_fetch_20250910", "name": "web_fetch" }]);
            bodies::messages(json!({ "tools": tools })).to_string()
        },
        ..BASE
    },
    Row {
        name: "connector",
        limit: 2_000,
        what: "tools of a server that the provider asks (`mcp_servers`)",
        request: |_| {
            let servers = json!([{ "type": "url", "url": "https://example.com/mcp", "name": "m" }]);
            let tools = json!([{ "type": "mcp_toolset", "mcp_server_name": "m" }]);
            bodies::messages(json!({ "mcp_servers": servers, "tools": tools })).to_string()
        },
        ..BASE
    },
    Row {
        name: "code-execution",
        what: "code that the provider runs",
        request: |_| {
            let tools = json!([{ "type": "code_execution_20250825", "name": "code_execution" }]);
            bodies::messages(json!({ "tools": tools })).to_string()
        },
        expected: Expected::Refused(402, "--allow-unmetered=code_execution_20250825`"),
        ..BASE
    },
    Row {
        name: "gemini-code",
        limit: 4_000,
        tries: 20,
        what: "code that Gemini runs, whose output it reads",
        path: GEMINI,
        request: |_| bodies::gemini(json!({ "tools": [{ "codeExecution": {} }] })).to_string(),
        serve: |arrival, _| read_much(reply::gemini, arrival, UNLIMITED_RUNS, 0, |_, _| {}),
        ..BASE
    },
    Row {
        name: "gemini-pages",
        limit: 4_000,
        tries: 20,
        what: "pages of the web that Gemini reads (`urlContext`)",
        path: GEMINI,
        request: |_| bodies::gemini(json!({ "tools": [{ "urlContext": {} }] })).to_string(),
        serve: |arrival, _| read_much(reply::gemini, arrival, UNLIMITED_RUNS, 0, |_, _| {}),
        ..BASE
    },
    Row {
        name: "skills",
        what: "skills of a container",
        request: |_| {
            let skills = json!([{ "type": "anthropic", "skill_id": "pptx", "version": "latest" }]);
            bodies::messages(json!({ "container": { "skills": skills } })).to_string()
        },
        expected: Expected::Refused(402, "--allow-unmetered=container.skills`"),
        ..BASE
    },
    Row {
        name: "dearer-place",
        what: "a place that costs a tenth more (`inference_geo`)",
        tries: 60,
        request: |_| bodies::messages(json!({ "inference_geo": "us" })).to_string(),
        serve: |arrival, _| {
            let (input, output) = (arrival.tokens(), arrival.cap());
            let work = Work { input, output, surcharge: 10, ..Work::default() };
            Serving { work, sent: Sent::Whole(reply::ok(&reply::messages(input, output))) }
        },
        expected: Expected::Refused(402, "--allow-unmetered=inference_geo`"),
        ..BASE
    },
    Row {
        name: "dearer-tier",
        what: "the provider chooses a tier of twice the price (`service_tier: auto`)",
        path: CHAT,
        tries: 60,
        request: |_| {
            bodies::chat(json!({ "service_tier": "auto", "max_completion_tokens": 1_000 }))
                .to_string()
        },
        serve: |arrival, _| {
            let (input, output) = (arrival.tokens(), arrival.cap());
            let work = Work { input, output, surcharge: 100, ..Work::default() };
            let mut body = reply::chat(input, output);
            reply::put(&mut body, &["service_tier"], json!("priority"));
            reply::put(&mut body, &["model"], json!("gpt-5"));
            Serving { work, sent: Sent::Whole(reply::ok(&body)) }
        },
        ..BASE
    },
    Row {
        name: "unknown-tier",
        what: "a tier of service that no price is known of",
        path: CHAT,
        request: |_| bodies::chat(json!({ "service_tier": "ultrafast" })).to_string(),
        expected: Expected::Refused(402, "--allow-unmetered=service_tier`"),
        ..BASE
    },
    Row {
        name: "unknown-content",
        what: "content of a kind that no table has",
        request: |_| {
            let part = json!({ "type": "hologram", "hologram": { "id": "h_1" } });
            bodies::messages(json!({ "messages": [{ "role": "user", "content": [part] }] }))
                .to_string()
        },
        expected: Expected::Refused(402, "--allow-unmetered=hologram`"),
        ..BASE
    },
    Row {
        name: "declined",
        what: "a model declines and another answers: both are billed, and the totals have the answer",
        tries: 60,
        request: |_| {
            bodies::messages(json!({ "fallbacks": [{ "model": "claude-sonnet-4-5" }] })).to_string()
        },
        serve: |arrival, _| {
            let (input, output) = (arrival.tokens(), arrival.cap());
            let mut body = reply::messages(input, output);
            let attempt = |kind: &str| {
                json!({ "type": kind, "model": "claude-sonnet-4-5",
                "input_tokens": input, "output_tokens": output })
            };
            let attempts = json!([attempt("message"), attempt("fallback_message")]);
            reply::put(&mut body, &["usage", "iterations"], attempts);
            let work = Work { input: 2 * input, output: 2 * output, ..Work::default() };
            Serving { work, sent: Sent::Whole(reply::ok(&body)) }
        },
        ..BASE
    },
    Row {
        name: "tools-in-an-item",
        what: "searches by tools that an item of the conversation adds",
        limit: 500,
        path: RESPONSES,
        request: |_| {
            let item = json!({ "type": "additional_tools", "role": "developer",
                "tools": [{ "type": "web_search" }] });
            let input = json!([item, { "role": "user", "content": "Go." }]);
            bodies::responses(json!({ "input": input })).to_string()
        },
        serve: |arrival, _| {
            read_much(reply::responses, arrival, runs_of(arrival), SEARCH, put_searches)
        },
        ..BASE
    },
    Row {
        name: "cache-for-an-hour",
        what: "a cache for an hour, which costs twice, named by an escape",
        limit: 20,
        request: |_| {
            let part = json!({ "type": "text", "text": "Q".repeat(20_000),
                "cache_control": { "type": "ephemeral", "ttl": "hour" } });
            let messages = json!([{ "role": "user", "content": [part] }]);
            let body = bodies::messages(json!({ "messages": messages, "max_tokens": 16 }));
            body.to_string().replace("\"hour\"", "\"\\u0031h\"")
        },
        serve: |arrival, _| {
            let input = arrival.tokens();
            let mut body = reply::messages(0, 0);
            reply::put(&mut body, &["usage", "cache_creation_input_tokens"], json!(input));
            reply::put(
                &mut body,
                &["usage", "cache_creation"],
                json!({ "ephemeral_1h_input_tokens": input }),
            );
            let work = Work { input, surcharge: 100, ..Work::default() };
            Serving { work, sent: Sent::Whole(reply::ok(&body)) }
        },
        ..BASE
    },
];
