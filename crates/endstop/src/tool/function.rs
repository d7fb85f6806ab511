//! Tools made from functions.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use endstop_core::units::Money;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use crate::message::ToolCall;

type ToolFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;
type Function = Box<dyn Fn(&str, ToolContext) -> ToolFuture + Send + Sync>;

/// A tool made from an async function.
///
/// The function takes its arguments, whose type derives the schema that the model is shown, and the context of the
/// call. It returns any type that becomes a [`ToolOutput`]: text, a JSON value, `()`, a [`Handoff`](super::Handoff).
/// Within it `?` takes every error: an [`AgentStop`](endstop_core::signal::AgentStop) stops the loop, and the model
/// reads any other.
///
/// ```
/// use endstop::core::signal::{AgentStop, StopReason, StopSignal};
/// use endstop::tool::{FunctionTool, ToolContext};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Step {
///     /// The count so far.
///     count: u32,
/// }
///
/// let count = |step: Step, _: ToolContext| async move {
///     if step.count >= 3 {
///         Err(AgentStop::from(StopSignal::new(StopReason::Completed)))?;
///     }
///     Ok(format!("{}", step.count + 1))
/// };
/// let counter = FunctionTool::new("counter", "Counts up by one.", count);
/// ```
pub struct FunctionTool {
    spec: ToolSpec,
    run: Function,
    timeout: Option<Duration>,
    can_abort: bool,
    most: Option<Money>,
}

impl FunctionTool {
    /// Creates a tool that hands its arguments to `function`.
    ///
    /// Doc comments of the argument type and of its fields are the descriptions that the model reads. The
    /// type must be a struct or another that is a JSON object; [`ToolSet`](super::ToolSet) refuses others.
    pub fn new<A, F, Fut, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
        O: Into<ToolOutput>,
    {
        let run = move |arguments: &str, context| -> ToolFuture {
            match read::<A>(arguments) {
                Ok(arguments) => into_answer(function(arguments, context)),
                Err(error) => std::future::ready(Err(error)).boxed(),
            }
        };
        Self::made(name.into(), description.into(), schema_of::<A>(), Box::new(run))
    }

    /// Creates a tool that takes no arguments. Any that a model passes are ignored.
    pub fn without_arguments<F, Fut, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        F: Fn(ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
        O: Into<ToolOutput>,
    {
        let run = move |_: &str, context| -> ToolFuture { into_answer(function(context)) };
        let schema = json!({ "type": "object", "properties": {} });
        Self::made(name.into(), description.into(), schema, Box::new(run))
    }

    fn made(name: String, description: String, parameters: Value, run: Function) -> Self {
        let spec = ToolSpec { name, description, parameters };
        Self { spec, run, timeout: None, can_abort: true, most: None }
    }

    /// Lets a call take this long, and no longer.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Declares the most that one call can cost, without the tokens of the model ([`Tool::cost_at_most`]).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use endstop::agent::AgentLoop;
    /// use endstop::core::signal::StopReason;
    /// use endstop::core::units::Money;
    /// use endstop::model::{ScriptedModel, ScriptedResponse};
    /// use endstop::tool::{FunctionTool, ToolError, ToolOutput};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cents = |n: u64| Money::from_picos(n * 10_000_000_000);
    /// // A search costs at most 5 cents, and this one costs 2.
    /// let search = FunctionTool::without_arguments("search", "Searches.", move |_| async move {
    ///     Ok::<_, ToolError>(ToolOutput::text("three pages").with_cost(cents(2)))
    /// });
    /// # let free = "on_unpriced = { input = \"$0/M\", output = \"$0/M\" }\n";
    /// # let policy = format!("{free}[stop]\nmoney = \"cost >= $0.10\"\n");
    /// # let policy = endstop::core::Policy::from_toml(&policy)?;
    /// let agent = AgentLoop::builder("researcher")
    ///     .model(ScriptedModel::new("scripted").reply(ScriptedResponse::call("search", json!({}))).repeat_last())
    ///     .tool(search.cost_at_most(cents(5)))
    ///     .policy(policy) // cost >= $0.10, and the model is free
    ///     .build()?;
    /// let state = agent.run("Find it.").await?;
    /// // After three searches 4 cents are left: a fourth does not begin.
    /// assert_eq!((state.cost(), state.step_count()), (Some(cents(6)), 4));
    /// assert_eq!(state.stop_reason(), Some(StopReason::CostLimitReached));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn cost_at_most(mut self, cost: Money) -> Self {
        self.most = Some(cost);
        self
    }

    /// Declares that dropping the future does not end the function's work. A call then runs to completion as a
    /// separate task, even if the run is aborted, and is reported as still running.
    #[must_use]
    pub fn not_abortable(mut self) -> Self {
        self.can_abort = false;
        self
    }
}

impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(self: Arc<Self>, call: ToolCall, context: ToolContext) -> ToolFuture {
        // The function itself runs when the future is polled first: a panic in it is one of the future.
        async move { (self.run)(&call.arguments, context).await }.boxed()
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn can_abort(&self) -> bool {
        self.can_abort
    }

    fn cost_at_most(&self) -> Option<Money> {
        self.most
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool")
            .field("spec", &self.spec)
            .field("timeout", &self.timeout)
            .field("can_abort", &self.can_abort)
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

fn into_answer<Fut, O>(future: Fut) -> ToolFuture
where
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: Into<ToolOutput>,
{
    async move { future.await.map(Into::into) }.boxed()
}

/// Reads what fits the schema. JSON Schema takes `3.0` for an integer, which serde does not.
fn read<A: DeserializeOwned>(arguments: &str) -> Result<A, ToolError> {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let error = match serde_json::from_str(text) {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    let whole = serde_json::from_str(text).map(with_whole_numbers);
    whole
        .and_then(A::deserialize)
        .map_err(|_| ToolError::Failed(format!("the arguments cannot be read: {error}")))
}

/// Writes numbers such as `3.0` as integers, if that changes nothing.
fn with_whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            // `Display` writes a float without an exponent, so the text of a whole one parses.
            let whole = number.as_f64().filter(|float| float.fract() == 0.0);
            let whole = whole.and_then(|float| format!("{float:.0}").parse::<i64>().ok());
            if number.is_f64() {
                whole.map_or(Value::Number(number), Value::from)
            } else {
                Value::Number(number)
            }
        }
        Value::Array(items) => items.into_iter().map(with_whole_numbers).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, with_whole_numbers(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// The schema of a type as models are shown it: in one piece, and without what only says how Rust calls it.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(RecursiveTransform(drop_rust_names));
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    // Providers want an object to be named at the root; a tagged enum says so only of its variants.
    if schema.get("type").is_none() {
        schema.insert("type".to_owned(), Value::from("object"));
    }
    schema.to_value()
}

/// `uint32` and its like are no formats of JSON Schema, and some providers refuse them.
fn drop_rust_names(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| NUMBER_FORMATS.contains(&format)) {
        schema.remove("format");
    }
}

const NUMBER_FORMATS: [&str; 14] = [
    "int", "int8", "int16", "int32", "int64", "int128", "uint", "uint8", "uint16", "uint32",
    "uint64", "uint128", "float", "double",
];
