//! The HTTP client `ureq` with rustls, in a loop on chat completions at OpenAI's own address.
//!
//! It trusts the roots of the system, or with `--own-roots` those that are built in (webpki-roots).

use std::error::Error;

use serde_json::{Value, json};
use ureq::tls::{RootCerts, TlsConfig};

const URL: &str = "https://api.openai.com/v1/chat/completions";
const PROMPT: &str = "Count forever: call the tool `counter` again and again.";

/// The message of a stream.
fn joined(events: &str) -> Result<Value, serde_json::Error> {
    let (mut content, mut calls) = (String::new(), Vec::<Value>::new());
    for data in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
        if data == "[DONE]" {
            break;
        }
        let event: Value = serde_json::from_str(data)?;
        let delta = &event["choices"][0]["delta"];
        content.push_str(delta["content"].as_str().unwrap_or_default());
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = part["index"].as_u64().unwrap_or_default() as usize;
            if calls.len() <= index {
                let empty = json!({ "name": "", "arguments": "" });
                calls.push(json!({ "id": part["id"], "type": "function", "function": empty }));
            }
            let call = &mut calls[index]["function"];
            for name in ["name", "arguments"] {
                let more = part["function"][name].as_str().unwrap_or_default();
                call[name] = json!(format!("{}{more}", call[name].as_str().unwrap_or_default()));
            }
        }
    }
    Ok(json!({ "content": content, "tool_calls": calls }))
}

fn run(roots: RootCerts, stream: bool, tools_run: &mut u64) -> Result<String, Box<dyn Error>> {
    let tls = TlsConfig::builder().root_certs(roots).build();
    let agent = ureq::Agent::new_with_config(ureq::Agent::config_builder().tls_config(tls).build());
    let key = format!("Bearer {}", std::env::var("OPENAI_API_KEY")?);
    let schema = json!({ "type": "object", "properties": { "step": { "type": "integer" } } });
    let function = json!({ "name": "counter", "parameters": schema });
    let tools = json!([{ "type": "function", "function": function }]);
    let mut messages = vec![json!({ "role": "user", "content": PROMPT })];
    loop {
        let body = json!({ "model": "gpt-4o", "stream": stream, "messages": messages, "tools": tools });
        let mut answer = agent.post(URL).header("authorization", &key).send_json(body)?;
        let text = answer.body_mut().read_to_string()?;
        let message = match stream {
            true => joined(&text)?,
            false => serde_json::from_str::<Value>(&text)?["choices"][0]["message"].clone(),
        };
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.is_empty() {
            return Ok(message["content"].as_str().unwrap_or_default().to_owned());
        }
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
        for call in calls {
            *tools_run += 1;
            messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "counted" }));
        }
    }
}

fn main() {
    let has = |wanted: &str| std::env::args().any(|word| word == wanted);
    let roots = if has("--own-roots") { RootCerts::WebPki } else { RootCerts::PlatformVerifier };
    let mut tools_run = 0;
    let result = run(roots, has("--stream"), &mut tools_run);
    let line = match &result {
        Ok(text) => json!({ "ended": "returned", "error": null, "text": text, "tools_run": tools_run }),
        Err(error) => {
            json!({ "ended": "raised", "error": "Error", "text": error.to_string(), "tools_run": tools_run })
        }
    };
    println!("\n{line}");
    std::process::exit(i32::from(result.is_err()));
}
