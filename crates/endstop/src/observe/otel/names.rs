//! Names of attributes, metrics and operations. Those that begin with `gen_ai` follow the GenAI semantic
//! conventions of OpenTelemetry, which are still in development: whatever they rename is changed here.

/// Operations (`gen_ai.operation.name`); spans are named by one and what it is about.
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const CHAT: &str = "chat";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const AGENT: &str = "gen_ai.agent.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(super) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(super) const TOOL: &str = "gen_ai.tool.name";
pub(super) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(super) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(super) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(super) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(super) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const HTTP_STATUS: &str = "http.response.status_code";

pub(super) const RUN: &str = "endstop.run.id";
pub(super) const PARENT: &str = "endstop.run.parent_id";
pub(super) const DEPTH: &str = "endstop.run.depth";
pub(super) const STATUS: &str = "endstop.run.status";
pub(super) const STOP_REASON: &str = "endstop.stop.reason";
pub(super) const STOP_MESSAGE: &str = "endstop.stop.message";
pub(super) const STOP_SOURCE: &str = "endstop.stop.source";
pub(super) const RULE: &str = "endstop.rule";
pub(super) const DIRECTIVE: &str = "endstop.directive";
pub(super) const OUTCOME: &str = "endstop.tool.outcome";
pub(super) const MESSAGE: &str = "endstop.message";
/// Dollars of a call; absent if they are not known.
pub(super) const COST: &str = "endstop.cost.usd";
/// How tokens or money were counted: [`MEASURED`] or [`ESTIMATED`].
pub(super) const COUNTING: &str = "endstop.counting";
pub(super) const MEASURED: &str = "measured";
pub(super) const ESTIMATED: &str = "estimated";
/// `steps`, `attempts`, `tool_calls`, `tokens`, `cost`.
pub(super) const DIMENSION: &str = "endstop.budget.dimension";
/// [`DIRECT`] or [`SUBTREE`].
pub(super) const SCOPE: &str = "endstop.budget.scope";
/// The usage of the run itself.
pub(super) const DIRECT: &str = "direct";
/// With its sub-agents: to be summed over root runs only.
pub(super) const SUBTREE: &str = "subtree";

/// Events of the span of a run.
pub(super) const EVENT_DECIDED: &str = "endstop.decided";
pub(super) const EVENT_WARNED: &str = "endstop.warned";
pub(super) const EVENT_STOP_RAISED: &str = "endstop.stop_raised";
pub(super) const EVENT_TOOL_REFUSED: &str = "endstop.tool_refused";
pub(super) const EVENT_HANDED_OFF: &str = "endstop.handed_off";
pub(super) const EVENT_KILLED: &str = "endstop.killed";
pub(super) const EVENT_CANCELLED: &str = "endstop.cancelled";
pub(super) const EVENT_CONTINUATION: &str = "endstop.continuation_requested";
pub(super) const EVENT_APPROVED: &str = "endstop.approved";

/// Metrics.
pub(super) const METRIC_TOKENS: &str = "gen_ai.client.token.usage";
pub(super) const METRIC_DURATION: &str = "gen_ai.client.operation.duration";
pub(super) const METRIC_CONSUMED: &str = "endstop.budget.consumed";
pub(super) const METRIC_LIMIT: &str = "endstop.budget.limit";
pub(super) const METRIC_RUNS: &str = "endstop.runs";
