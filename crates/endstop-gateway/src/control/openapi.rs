//! The OpenAPI document of the control API, made from its types.

mod keys;

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::answer::{Health, Killed, Problem, RunChange, RunDetail, RunList, TotalState};
use super::outside::{KILLS_PATH, SPEND_PATH};
use super::{Command, TotalCommand, WrittenAmount};
use crate::control_source::{
    BudgetList, CorrectedBudgets, CorrectionRequest, KillList, SpendReport,
};

/// The path of the document.
pub(super) const OPENAPI_PATH: &str = "/endstop/v1/openapi.json";

/// The errors that a request can be answered with.
const PROBLEMS: [(u16, &str); 8] = [
    (400, "The body or the query cannot be read or used."),
    (401, "The token is missing or wrong."),
    (403, "A web page of another site has sent it, or it is for another host."),
    (404, "There is no such run, key, total or budget, or nothing is recorded."),
    (405, "The path has other methods."),
    (
        409,
        "The run or key is in a state in which this is not possible, another gateway serves the run, a budget has spent less than is taken back, or a store is full of keys.",
    ),
    (500, "Stored runs, budgets, keys or the history cannot be read or written."),
    (503, "The store that gateways share is away."),
];

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A request, and its answer.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    body: Option<SchemaOf>,
    answer: Option<SchemaOf>,
}

const fn get(path: &'static str, answer: SchemaOf, summary: &'static str) -> Operation {
    Operation { method: "get", path, summary, body: None, answer: Some(answer) }
}

const fn post(
    path: &'static str,
    body: SchemaOf,
    answer: SchemaOf,
    summary: &'static str,
) -> Operation {
    Operation { method: "post", path, summary, body: Some(body), answer: Some(answer) }
}

/// Every request that is answered.
const OPERATIONS: [Operation; 19] = [
    get("/endstop/health", of::<Health>, "Whether the listener takes connections. Needs no token"),
    Operation {
        method: "get",
        path: OPENAPI_PATH,
        summary: "This document. Needs no token",
        body: None,
        answer: None,
    },
    get("/endstop/v1/runs", of::<RunList>, "Every run"),
    get("/endstop/v1/runs/{run}", of::<RunDetail>, "One run, with its report"),
    get(
        "/endstop/v1/runs/{run}/wait",
        of::<RunChange>,
        "The run, once it has taken other than `events` events, or after 20 seconds",
    ),
    post(
        "/endstop/v1/runs/{run}/cancel",
        of::<Command>,
        of::<RunDetail>,
        "Stop the run; its calls in flight finish. Reads `by` and `message`",
    ),
    post(
        "/endstop/v1/runs/{run}/kill",
        of::<Command>,
        of::<RunDetail>,
        "Stop the run and abort its calls in flight. Reads `by` and `message`",
    ),
    post(
        "/endstop/v1/runs/{run}/pause",
        of::<Command>,
        of::<RunDetail>,
        "Hold the calls of the run. Reads `by` and `message`",
    ),
    post(
        "/endstop/v1/runs/{run}/resume",
        of::<Command>,
        of::<RunDetail>,
        "End the pause from outside, after raising limits. Reads `by`, `message`, `usd`, `tokens` and `steps`",
    ),
    post(
        "/endstop/v1/runs/{run}/approve",
        of::<Command>,
        of::<RunDetail>,
        "Approve the pause rules that are met. Reads `by`, `message`, `rule` and `limit`",
    ),
    post(
        "/endstop/v1/runs/{run}/signal",
        of::<Command>,
        of::<RunDetail>,
        "Set an external signal permanently. Reads `name`, `by` and `message`",
    ),
    post(
        "/endstop/v1/kill",
        of::<Command>,
        of::<Killed>,
        "Kill all runs, or those of a key or a budget, and admit none later. Reads `by`, `message`, `key` and `budget`",
    ),
    get("/endstop/v1/total", of::<TotalState>, "The total of all runs"),
    post(
        "/endstop/v1/total",
        of::<TotalCommand>,
        of::<TotalState>,
        "Replace the limit of the total of all runs. Reads `limit`, `by` and `message`",
    ),
    get(
        "/endstop/v1/budgets",
        of::<BudgetList>,
        "Every budget over time. The own limits of keys (`key-NAME`) are not among them",
    ),
    get(
        "/endstop/v1/budgets/{name}",
        of::<BudgetList>,
        "One budget over time, but not the own limits of a key",
    ),
    post(
        "/endstop/v1/budgets/{name}/adjust",
        of::<CorrectionRequest>,
        of::<CorrectedBudgets>,
        "Correct what a budget and those above it have spent in their current windows",
    ),
    get(
        SPEND_PATH,
        of::<SpendReport>,
        "The spend in the history of the gateway's user, by `day` or what `by` says",
    ),
    get(
        KILLS_PATH,
        of::<KillList>,
        "The last kill of all by the gateway's user on its machine, and the last kills of the store that it shares",
    ),
];

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Operation {
    fn describe(&self, generator: &mut SchemaGenerator) -> Value {
        let answer =
            self.answer.map_or_else(|| json!({ "type": "object" }), |of| schema(of, generator));
        let mut responses = Map::new();
        responses.insert("200".to_owned(), content("The answer.", &answer));
        let is_open = self.path == OPENAPI_PATH || !self.path.starts_with("/endstop/v1/");
        let problem = schema(of::<Problem>, generator);
        // An open path has no run, and the health of a listener is the answer to every method.
        let has = |status: u16| match self.path {
            OPENAPI_PATH => matches!(status, 403 | 405),
            _ => !is_open || status == 403,
        };
        for (status, what) in PROBLEMS.iter().filter(|(status, _)| has(*status)) {
            responses.insert(status.to_string(), content(what, &problem));
        }
        let mut described = Map::new();
        described.insert("summary".to_owned(), json!(self.summary));
        described.insert("responses".to_owned(), Value::Object(responses));
        let security = if is_open { json!([]) } else { json!([{ "token": [] }]) };
        described.insert("security".to_owned(), security);
        if let Some(of) = self.body {
            let body =
                json!({ "content": { "application/json": { "schema": schema(of, generator) } } });
            described.insert("requestBody".to_owned(), body);
        }
        let parameters = self.parameters();
        if !parameters.is_empty() {
            described.insert("parameters".to_owned(), Value::Array(parameters));
        }
        Value::Object(described)
    }

    fn parameters(&self) -> Vec<Value> {
        let parameter = |name: &str, place: &str, of: &str| {
            let is_required = place == "path";
            json!({ "name": name, "in": place, "required": is_required, "schema": { "type": of } })
        };
        let in_path = ["run", "name"];
        let in_path = in_path.into_iter().filter(|name| self.path.contains(&format!("{{{name}}}")));
        let in_path = in_path.map(|name| parameter(name, "path", "string"));
        let events = self.path.ends_with("/wait").then(|| parameter("events", "query", "integer"));
        let of_spend: &[&str] =
            if self.path == SPEND_PATH { &["by", "since", "timezone"] } else { &[] };
        let of_spend = of_spend.iter().map(|name| parameter(name, "query", "string"));
        in_path.chain(events).chain(of_spend).collect()
    }
}

/// A schema as JSON: a reference to its place in the document.
fn schema(of: SchemaOf, generator: &mut SchemaGenerator) -> Value {
    of(generator).into()
}

fn content(description: &str, schema: &Value) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

/// Returns the OpenAPI 3.1 document of the control API ([`Control`](crate::Control)), made from its types. A gateway answers
/// `GET /endstop/v1/openapi.json` with it.
///
/// ```
/// let document = endstop_gateway::control_openapi();
/// assert!(document["paths"]["/endstop/v1/runs/{run}/approve"]["post"].is_object());
/// ```
#[must_use]
pub fn control_openapi() -> Value {
    let place = |settings: &mut SchemaSettings| {
        settings.definitions_path = Cow::Borrowed("/components/schemas");
    };
    let mut generator = SchemaSettings::draft2020_12().with(place).into_generator();
    let mut paths = Map::new();
    for operation in OPERATIONS.iter().chain(&keys::OPERATIONS) {
        let described = operation.describe(&mut generator);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(operation.method.to_owned(), described);
        }
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "The control API of Endstop",
            "version": "1",
            "description": "On the unix socket of a gateway, or at its control address with a token.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

impl JsonSchema for WrittenAmount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Amount")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["number", "string"] })
    }
}

#[cfg(test)]
mod tests;
