//! Tests of `span`.

use serde_json::json;

use super::*;

fn kind(operation: (&str, &str)) -> &'static str {
    let mut attributes = Attributes::new();
    attributes.insert(operation.0.to_owned(), json!(operation.1));
    match kind_of(&attributes) {
        SpanKind::Model(_) => "model",
        SpanKind::Tool(_) => "tool",
        SpanKind::Agent(_) => "agent",
        SpanKind::Other => "other",
    }
}

#[test]
fn spans_are_known_by_all_their_names() {
    for (name, value, expected) in [
        ("gen_ai.operation.name", "chat", "model"),
        ("gen_ai.operation.name", "embeddings", "other"),
        ("gen_ai.operation.name", "execute_tool", "tool"),
        ("gen_ai.operation.name", "invoke_agent", "agent"),
        ("gen_ai.operation.name", "invoke_workflow", "other"),
        ("openinference.span.kind", "LLM", "model"),
        ("openinference.span.kind", "CHAIN", "other"),
        ("ai.operationId", "ai.streamText", "other"),
        ("ai.operationId", "ai.streamText.doStream", "model"),
        ("ai.operationId", "ai.toolCall", "tool"),
        ("llm.request.type", "chat", "model"),
        ("traceloop.span.kind", "workflow", "other"),
    ] {
        assert_eq!(kind((name, value)), expected, "{name}={value}");
    }
}
