//! How lines are written.

use endstop_core::units::Millis;

use super::*;

#[test]
fn a_line_is_written_into_room_that_is_there() {
    let result = "a result with some words\n".repeat(400);
    let arguments = "{\"path\":\"src/main.rs\",\"from\":1}";
    let kind = EventKind::ToolEnd { tool: "read", arguments, result: &result, failed: true };
    let event = Event::new(Millis(123_456_789), kind);
    let line = trace_line(&event);
    assert!(line.ends_with("}\n") && line.lines().count() == 1);
    assert!(line.capacity() <= 2 * line.len(), "{} for {}", line.capacity(), line.len());
    let mut buffer = Vec::new();
    push_trace_line(&mut buffer, &event);
    assert_eq!(buffer, line.as_bytes());
}
