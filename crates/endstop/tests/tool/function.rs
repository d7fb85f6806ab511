//! Tools from functions: schema, arguments, errors, settings.

use std::sync::Arc;
use std::time::Duration;

use endstop::core::signal::{AgentStop, StopReason, StopSignal};
use endstop::tool::{FunctionTool, Handoff, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{call, failure};

#[derive(Deserialize, JsonSchema)]
struct Counter {
    /// The count so far.
    count: u32,
    label: Option<String>,
}

fn counter() -> Arc<dyn Tool> {
    let run = |args: Counter, _: ToolContext| async move {
        if args.count >= 3 {
            Err(AgentStop::from(StopSignal::new(StopReason::Completed)))?;
        }
        let _: u64 = args.label.as_deref().unwrap_or("0").parse()?;
        Ok(ToolOutput::text(format!("{}", args.count + 1))
            .with_fact("count", u64::from(args.count)))
    };
    Arc::new(FunctionTool::new("counter", "Counts up by one.", run))
}

#[tokio::test]
async fn runs_with_its_arguments_and_reports_facts() {
    let output = call(counter(), r#"{"count": 1}"#).await.unwrap();
    assert_eq!(output, ToolOutput::text("2").with_fact("count", 1));
}

#[tokio::test]
async fn a_whole_float_is_an_integer() {
    assert_eq!(call(counter(), r#"{"count": 2.0}"#).await.unwrap().text, "3");
    assert!(failure(call(counter(), r#"{"count": 1.5}"#).await).contains("1.5"));
}

#[tokio::test]
async fn agent_stop_through_the_question_mark_stops() {
    match call(counter(), r#"{"count": 3}"#).await {
        Err(ToolError::Stop(stop)) => {
            assert_eq!(stop.into_signal("counter").reason, StopReason::Completed);
        }
        other => panic!("not a stop: {other:?}"),
    }
}

#[derive(Debug)]
struct Wrapped(Option<AgentStop>);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the outer error")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Without a stop it names itself, which must not continue forever.
        Some(self.0.as_ref().map_or(self, |stop| stop))
    }
}

#[test]
fn an_error_that_carries_a_stop_stops_and_a_circle_of_causes_ends() {
    let stop = AgentStop { message: Some("enough".to_owned()), ..AgentStop::default() };
    match ToolError::from(Wrapped(Some(stop.clone()))) {
        ToolError::Stop(found) => assert_eq!(*found, stop),
        other @ ToolError::Failed(_) => panic!("not a stop: {other:?}"),
    }
    assert_eq!(failure(Err(Wrapped(None).into())), "the outer error");
}

#[tokio::test]
async fn any_other_error_is_told() {
    let told = failure(call(counter(), r#"{"count": 1, "label": "x"}"#).await);
    assert_eq!(told, "invalid digit found in string");
}

#[tokio::test]
async fn arguments_that_cannot_be_read_are_a_failure_and_no_panic() {
    for arguments in ["", "null", "[", r#"{"count": -1}"#, r#"{"count": 99999999999}"#] {
        let told = failure(call(counter(), arguments).await);
        assert!(told.starts_with("the arguments cannot be read: "), "{arguments}: {told}");
    }
}

#[test]
fn the_schema_has_descriptions_and_no_rust_names() {
    let schema = json!({
        "type": "object",
        "properties": {
            "count": { "description": "The count so far.", "type": "integer", "minimum": 0 },
            "label": { "type": ["string", "null"] },
        },
        "required": ["count"],
    });
    assert_eq!(counter().spec().parameters, schema);
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Order {
    Buy { pieces: u8 },
    Wait,
}

#[derive(Deserialize, JsonSchema)]
struct Nested {
    orders: Vec<Order>,
}

#[tokio::test]
async fn nested_types_are_inlined_and_a_tagged_enum_is_an_object() {
    let nested = FunctionTool::new("n", "", |args: Nested, _| async move {
        let bought = args.orders.iter().map(|order| match order {
            Order::Buy { pieces } => u64::from(*pieces),
            Order::Wait => 0,
        });
        Ok(json!({ "bought": bought.sum::<u64>() }))
    });
    assert!(!nested.spec().parameters.to_string().contains("$ref"));
    let arguments = r#"{"orders":[{"kind":"buy","pieces":2},{"kind":"wait"}]}"#;
    assert_eq!(call(Arc::new(nested), arguments).await.unwrap().text, r#"{"bought":2}"#);

    let order = FunctionTool::new("o", "", |_: Order, _| async move { Ok(()) });
    assert_eq!(order.spec().parameters["type"], "object");
}

#[tokio::test]
async fn everything_that_becomes_an_output_may_be_returned() {
    let text = FunctionTool::without_arguments("a", "", |_| async { Ok("text") });
    assert_eq!(call(Arc::new(text), "").await.unwrap().text, "text");
    let string = FunctionTool::without_arguments("a", "", |_| async { Ok(String::from("s")) });
    assert_eq!(call(Arc::new(string), "{}").await.unwrap().text, "s");
    let nothing = FunctionTool::without_arguments("a", "", |_| async { Ok(()) });
    assert_eq!(call(Arc::new(nothing), "{\"x\":1}").await.unwrap().text, "done");
    let handoff = FunctionTool::without_arguments("a", "", |context: ToolContext| async move {
        Ok(Handoff { to: format!("depth{}", context.depth), message: String::new() })
    });
    let handoff = call(Arc::new(handoff), "").await.unwrap().handoff.unwrap();
    assert_eq!(handoff.to, "depth0");
    let value: Value = json!([1]);
    assert_eq!(ToolOutput::from(value).text, "[1]");
}

#[test]
fn settings_are_kept() {
    let plain = FunctionTool::without_arguments("a", "", |_| async { Ok(()) });
    assert!(plain.can_abort() && Tool::timeout(&plain).is_none() && !plain.is_agent());
    let set = plain.timeout(Duration::from_secs(2)).not_abortable();
    assert_eq!(Tool::timeout(&set), Some(Duration::from_secs(2)));
    assert!(!set.can_abort());
}
