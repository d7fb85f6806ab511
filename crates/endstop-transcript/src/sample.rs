//! The runs that ship: invented, for a first look without transcripts of one's own.

use super::{Part, Transcript, format};

/// A name and the file's bytes.
type File = (&'static str, &'static [u8]);

/// The transcripts: format, file, files of sub-agents.
const TRANSCRIPTS: &[(&str, File, &[File])] = &[
    ("endstop", ("agents.jsonl", include_bytes!("../data/sample/agents.jsonl")), &[]),
    (
        "claude-code",
        ("claude-code-session.jsonl", include_bytes!("../data/sample/claude-code-session.jsonl")),
        &[(
            "claude-code-agent-5f2c.jsonl",
            include_bytes!("../data/sample/claude-code-agent-5f2c.jsonl"),
        )],
    ),
    ("openai-chat", ("chat-results.json", include_bytes!("../data/sample/chat-results.json")), &[]),
];

/// Ten runs in three formats: agents that reach their end, that search in circles, that run the same
/// failing test again and again, and one whose sub-agent does not stop.
#[must_use]
pub fn sample() -> Vec<Transcript> {
    let part = |(name, bytes): File| Part::bytes(format!("sample/{name}"), bytes);
    let rows = TRANSCRIPTS.iter().filter_map(|(id, main, children)| {
        let children = children.iter().map(|child| part(*child)).collect();
        Some(Transcript { format: format(id)?, main: part(*main), children })
    });
    rows.collect()
}
