//! `endstop price`: what a model costs, and what a call cost.

mod show;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use endstop::core::units::{Money, TokenUsage, WallTime};
use endstop_price::{
    CallContext, PriceTable, UsageCounts, UsageError, billed_cost, context_of, detect_shape,
    model_of, read_usage, usage_of,
};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::error::CliError;
use crate::input::read_at_most;
use crate::limits::MAX_JSON_BYTES;

/// The exit code of a model without a price.
const UNKNOWN_MODEL: u8 = 1;

/// The exit code of input that cannot be read.
const BAD_INPUT: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  endstop price claude-sonnet-4-5
  endstop price gpt-5 --input 12000 --cached 40000 --output 800
  endstop price gpt-5 --batch --input 12000 --output 800 --at 2026-11-01
  endstop price --usage response.json
  endstop price google/gemini-2.5-pro --provider openrouter --usage usage.json

Exit codes:
  0  priced
  1  the table has no price for this model: its cost is unknown, not zero
  2  the input cannot be read, or contradicts itself";

/// Print the rates of a model, or the cost of a call.
///
/// Counts and rates by class, exact amounts, and the total rounded up once to a pico-dollar. Without
/// usage it prints the rates.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PriceArgs {
    /// The model, as named in requests or responses
    ///
    /// It may be left out if the response names it.
    model: Option<String>,
    /// The provider [default: by the model's name]
    #[arg(long)]
    provider: Option<String>,
    /// Usage object or response body; `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "cached", "cache_write", "cache_write_1h", "output"])]
    usage: Option<PathBuf>,
    /// Uncached input tokens
    #[arg(long, value_name = "N")]
    input: Option<u64>,
    /// Input tokens read from a cache
    #[arg(long, value_name = "N")]
    cached: Option<u64>,
    /// Input tokens written to a 5-minute cache
    #[arg(long, value_name = "N")]
    cache_write: Option<u64>,
    /// Input tokens written to a 1-hour cache
    #[arg(long = "cache-write-1h", value_name = "N")]
    cache_write_1h: Option<u64>,
    /// Output tokens, reasoning included
    #[arg(long, value_name = "N")]
    output: Option<u64>,
    /// When the call began, in UTC [default: now]
    ///
    /// A date, or a time such as `2026-11-01T12:00:00Z`.
    #[arg(long, value_name = "DATE", value_parser = parse_time)]
    at: Option<Timestamp>,
    /// The call was part of a batch
    #[arg(long)]
    batch: bool,
    /// Service tier in the response, such as flex
    #[arg(long, value_name = "TIER")]
    service_tier: Option<String>,
    /// Requested speed, such as fast
    #[arg(long)]
    speed: Option<String>,
    /// Read prices from this file
    ///
    /// The JSON form of the genai-prices data.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The call to be priced, and how.
struct Question {
    model: String,
    usage: Option<UsageCounts>,
    billed: Option<Money>,
    context: CallContext,
    at: Timestamp,
}

/// Runs `endstop price`.
///
/// # Errors
///
/// Returns [`CliError`] with code 1 for a model without a price, and 2 for input that cannot be read.
pub fn run(args: &PriceArgs, out: &mut dyn io::Write) -> Result<ExitCode, CliError> {
    let own_table = args.prices.as_deref().map(read_table).transpose()?;
    let table = own_table.as_ref().unwrap_or_else(|| PriceTable::embedded());
    let question = question(args, table)?;
    let provider = args.provider.as_deref();
    let model = table.find(provider, &question.model);
    let model = model.ok_or_else(|| unknown_model(table, provider, &question.model))?;
    let at = wall_time(question.at);
    let priced = match &question.usage {
        Some(usage) => Some(model.price(usage, at, &question.context).map_err(|e| bad(&e))?),
        None => None,
    };
    let answer = show::Answer { table, model, question: &question, priced };
    if args.json {
        answer.json(out)?
    } else {
        answer.text(out)?
    }
    Ok(ExitCode::SUCCESS)
}

fn question(args: &PriceArgs, table: &PriceTable) -> Result<Question, CliError> {
    let body = args.usage.as_deref().map(read_json).transpose()?;
    let told = body.as_ref().map(context_of).unwrap_or_default();
    let context = CallContext {
        processing: args.batch.then(|| "batch".to_owned()).or(told.processing),
        service_tier: args.service_tier.clone().or(told.service_tier),
        speed: args.speed.clone().or(told.speed),
        other: told.other,
    };
    let usage = match &body {
        Some(body) => Some(read_body(args.provider.as_deref(), table, body)?),
        None => counts_of(args)?,
    };
    let billed = body.as_ref().and_then(|body| billed_cost(usage_of(body).unwrap_or(body)));
    let model = args.model.clone().or_else(|| body.as_ref().and_then(model_of));
    let model = model.ok_or_else(|| CliError {
        message: "missing model".to_owned(),
        hint: Some("name it as the first argument: `endstop price MODEL`".to_owned()),
        code: BAD_INPUT,
        details: None,
    })?;
    let now =
        || Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH);
    let at = args.at.unwrap_or_else(now);
    Ok(Question { model, usage, billed, context, at })
}

/// The counts that were given by hand, if any was.
fn counts_of(args: &PriceArgs) -> Result<Option<UsageCounts>, CliError> {
    let given = [args.input, args.cached, args.cache_write, args.cache_write_1h, args.output];
    if given.iter().all(Option::is_none) {
        return Ok(None);
    }
    let tokens = TokenUsage {
        input: args.input.unwrap_or(0),
        cache_read: args.cached.unwrap_or(0),
        cache_write: args.cache_write.unwrap_or(0),
        cache_write_1h: args.cache_write_1h.unwrap_or(0),
        output: args.output.unwrap_or(0),
    };
    UsageCounts::from_token_usage(&tokens).map(Some).map_err(|e| bad(&e))
}

/// Reads a whole response or a usage object: by the rules of the given provider, or, without one or if they do not
/// fit, by its shape.
fn read_body(
    provider: Option<&str>,
    table: &PriceTable,
    body: &Value,
) -> Result<UsageCounts, CliError> {
    let by_provider = provider.map(|provider| table.read_response(provider, None, body));
    if let Some(Ok((_, usage))) = by_provider {
        return Ok(usage);
    }
    let usage = usage_of(body).unwrap_or(body);
    let by_shape = detect_shape(usage)
        .ok_or(UsageError::UnknownShape)
        .and_then(|shape| read_usage(shape, usage));
    by_shape.map_err(|error| CliError {
        message: error.to_string(),
        hint: Some("known shapes: OpenAI chat and responses, Anthropic, Gemini, Bedrock, OpenTelemetry attributes".to_owned()),
        code: BAD_INPUT, details: None })
}

fn unknown_model(table: &PriceTable, provider: Option<&str>, model: &str) -> CliError {
    let at = provider.map(|provider| format!(" at `{provider}`")).unwrap_or_default();
    let elsewhere = provider.and_then(|_| table.find(None, model)).map(|found| {
        let (provider, id) = (found.provider_id(), found.model_id());
        format!("`{provider}/{id}` has a price; it applies without `--provider`")
    });
    let near = || {
        let names = table.nearest(provider, model);
        (!names.is_empty()).then(|| format!("the nearest are `{}`", names.join("`, `")))
    };
    CliError {
        message: format!("no price for model `{model}`{at}"),
        hint: elsewhere
            .or_else(near)
            .or_else(|| Some("pass --prices FILE, or `provider/model`".to_owned())),
        code: UNKNOWN_MODEL,
        details: None,
    }
}

fn read_table(path: &Path) -> Result<PriceTable, CliError> {
    let text = read_text(path)?;
    PriceTable::from_json(&text).map_err(|error| bad_file(path, &error))
}

fn read_json(path: &Path) -> Result<Value, CliError> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|error| bad_file(path, &error))
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let read = if path == Path::new("-") {
        read_at_most(io::stdin().lock(), MAX_JSON_BYTES)
    } else {
        File::open(path).and_then(|file| read_at_most(file, MAX_JSON_BYTES))
    };
    let text = read.map_err(|error| bad_file(path, &error))?;
    text.ok_or_else(|| bad_file(path, &"larger than 64 MiB"))
}

fn bad(error: &dyn std::fmt::Display) -> CliError {
    CliError { message: error.to_string(), hint: None, code: BAD_INPUT, details: None }
}

fn bad_file(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError {
        message: format!("`{}`: {error}", path.display()),
        hint: None,
        code: BAD_INPUT,
        details: None,
    }
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    let day = || {
        let date: Date = text.parse().ok()?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse().ok().or_else(day).filter(|time| *time >= Timestamp::UNIX_EPOCH);
    time.ok_or_else(|| "neither a date nor a time since 1970".to_owned())
}

fn wall_time(at: Timestamp) -> WallTime {
    WallTime(u64::try_from(at.as_millisecond()).unwrap_or(0))
}
