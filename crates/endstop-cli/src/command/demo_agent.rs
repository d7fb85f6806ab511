//! `endstop demo-agent`: the agent of `endstop demo`, a program that knows of no limit.
//!
//! It plans in a loop with a limit, and every iteration gives the work to a sub-agent with a separate loop. It sends
//! Anthropic messages to the address in ANTHROPIC_BASE_URL, over plain HTTP, as any agent does.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use endstop_llm::CallResponse;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::duration::span;
use crate::error::{CliError, ExitMeaning};
use crate::limits::MAX_DEMO_RESPONSE_BYTES;
use crate::output;

/// The model whose prices are paid.
pub(super) const MODEL: &str = "claude-sonnet-4-5";
/// Instructions and a search result, in bytes: about 6,000 and 4,000 tokens.
const INSTRUCTIONS_BYTES: usize = 24_000;
const RESULT_BYTES: usize = 16_000;
/// The output cap of its calls.
const OUTPUT_CAP: u64 = 2_000;

const HELP: &str = "\
Examples:
  endstop run --upstream sim --usd 2 -- endstop demo-agent
  endstop run --upstream sim --steps 3 -- endstop demo-agent --pause 500ms";

/// Arguments of `endstop demo-agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct DemoAgentArgs {
    /// The limit of the planner
    #[arg(long, value_name = "N", default_value_t = 50)]
    iterations: u64,
    /// Searches after which a sub-agent stops
    #[arg(long, value_name = "N", default_value_t = 22)]
    searches: u64,
    /// Wait before each call, and print it
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "0s")]
    pause: Duration,
}

/// Runs the command.
///
/// # Errors
/// If a model call fails.
pub fn run(args: &DemoAgentArgs, out: &mut dyn Write) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(format!("cannot start: {error}")))?;
    let said = runtime.block_on(plan(args)).map_err(|problem| {
        CliError::new(format!("the agent failed: {problem}")).with_exit(ExitMeaning::AnswerIsNo)
    })?;
    writeln!(out, "agent: {}", output::shown(&said))?;
    Ok(ExitCode::SUCCESS)
}

/// The planner: its loop ends when the model says something, or at its limit.
async fn plan(args: &DemoAgentArgs) -> Result<String, String> {
    let base = std::env::var("ANTHROPIC_BASE_URL")
        .map_err(|_| "ANTHROPIC_BASE_URL is not set; `endstop run` sets it".to_owned())?;
    let mut model = Model::connect(&base).await?;
    let run = std::env::var("ENDSTOP_RUN").ok();
    let mut planner = Conversation::new(
        "You plan. Ask for research until the question is answered.",
        "research",
        "Why do our nightly builds fail?",
    );
    for iteration in 1..=args.iterations {
        show(args, &format!("iteration {iteration}, plan")).await?;
        let call = match model.ask("", &planner).await? {
            DemoResponse::Said(text) => return Ok(text),
            DemoResponse::Call(call) => call,
        };
        // A sub-agent has a name in the path, so that it has a separate line in the summary.
        let place = run.as_ref().map(|run| format!("/r/{run}/research-{iteration}"));
        let place = place.unwrap_or_default();
        let found = research(args, &mut model, &place, iteration).await?;
        planner.add(&call, &found);
    }
    Ok(format!("the limit of {} iterations is reached, and nothing was found", args.iterations))
}

/// A sub-agent: its loop ends when the model says something, or when it gives up.
async fn research(
    args: &DemoAgentArgs,
    model: &mut Model,
    place: &str,
    iteration: u64,
) -> Result<String, String> {
    let instructions =
        format!("{:.<INSTRUCTIONS_BYTES$}", "You research. Search until you have found it.");
    let mut conversation = Conversation::new(&instructions, "search", "Examine the next log.");
    for search in 1..=args.searches {
        show(args, &format!("iteration {iteration}, search {search}")).await?;
        match model.ask(place, &conversation).await? {
            DemoResponse::Said(text) => return Ok(text),
            DemoResponse::Call(call) => {
                conversation
                    .add(&call, &format!("{:.<RESULT_BYTES$}", "Nothing certain in this log."));
            }
        }
    }
    Ok("I give up: nothing in these logs says why.".to_owned())
}

/// Waits, and prints the next call, if people watch.
async fn show(args: &DemoAgentArgs, call: &str) -> Result<(), String> {
    if args.pause.is_zero() {
        return Ok(());
    }
    tokio::time::sleep(args.pause).await;
    writeln!(std::io::stdout(), "agent: {call}").map_err(|error| error.to_string())
}

/// The messages so far, as they are sent.
struct Conversation {
    head: String,
    messages: String,
}

/// A tool call of the model.
struct DemoCall {
    id: String,
    block: Value,
}

enum DemoResponse {
    Said(String),
    Call(DemoCall),
}

impl Conversation {
    fn new(system: &str, tool: &str, question: &str) -> Self {
        let tool = json!({
            "name": tool,
            "input_schema": {
                "type": "object",
                "properties": { "about": { "type": "string" } },
                "required": ["about"],
            },
        });
        let (system, model) = (json!(system), json!(MODEL));
        let head = format!(
            r#"{{"model":{model},"max_tokens":{OUTPUT_CAP},"system":{system},"tools":[{tool}],"messages":["#
        );
        Self { head, messages: json!({ "role": "user", "content": question }).to_string() }
    }

    /// A call and its result.
    fn add(&mut self, call: &DemoCall, result: &str) {
        let result = json!([{ "type": "tool_result", "tool_use_id": call.id, "content": result }]);
        for message in [
            json!({ "role": "assistant", "content": [call.block] }),
            json!({ "role": "user", "content": result }),
        ] {
            self.messages.push(',');
            self.messages.push_str(&message.to_string());
        }
    }

    fn body(&self) -> Bytes {
        [self.head.as_str(), self.messages.as_str(), "]}"].concat().into()
    }
}

/// A connection to where the model is.
struct Model {
    sender: SendRequest<Full<Bytes>>,
    base: Uri,
}

impl Model {
    async fn connect(base: &str) -> Result<Self, String> {
        let uri: Uri = base.parse().map_err(|_| format!("`{base}` is not an address"))?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
        let authority = authority.ok_or_else(|| format!("`{base}` is not a plain HTTP address"))?;
        let address = (authority.host(), authority.port_u16().unwrap_or(80));
        let stream = tokio::net::TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let shaken = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self { sender, base: uri })
    }

    async fn ask(
        &mut self,
        place: &str,
        conversation: &Conversation,
    ) -> Result<DemoResponse, String> {
        let path = format!("{}{place}/v1/messages", self.base.path().trim_end_matches('/'));
        let host = self.base.authority().map(ToString::to_string).unwrap_or_default();
        let key = std::env::var("ANTHROPIC_API_KEY").unwrap_or_default();
        let request = Request::post(path)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", key)
            .body(Full::new(conversation.body()))
            .map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_DEMO_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let response = endstop_llm::Api::Messages.dialect().answer(&body);
        if !status.is_success() {
            let message = response.ok().and_then(|response| response.error);
            return Err(format!("{status}: {}", message.as_deref().unwrap_or("no message")));
        }
        response.map(reply).map_err(|_| "the answer cannot be read".to_owned())
    }
}

/// The first tool call of a response, otherwise its text.
fn reply(response: CallResponse) -> DemoResponse {
    let Some(call) = response.tool_calls.into_iter().next() else {
        return DemoResponse::Said(response.text);
    };
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let block = json!({ "type": "tool_use", "id": call.id, "name": call.tool, "input": input });
    DemoResponse::Call(DemoCall { id: call.id, block })
}
