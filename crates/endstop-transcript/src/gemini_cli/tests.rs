//! Rules of Gemini CLI's sessions.

use std::fs;

use super::*;
use crate::{Part, RunFooter, RunHeader, Source, Warning};
use endstop_price::PriceTable;

/// The ids of runs, their replies' tokens, and warnings.
#[derive(Default)]
struct Told {
    runs: Vec<String>,
    replies: Vec<Option<u64>>,
    turns: usize,
    warnings: Vec<WarningKind>,
}

impl RunSink for Told {
    fn begin(&mut self, run: &RunHeader<'_>) {
        self.runs.push(run.id.to_owned());
    }

    fn event(&mut self, event: &endstop_core::Event<'_>) {
        match event.kind {
            endstop_core::EventKind::Reply { usage, .. } => {
                self.replies.push(usage.map(|usage| usage.total()));
            }
            endstop_core::EventKind::UserMessage => self.turns += 1,
            _ => {}
        }
    }

    fn end(&mut self, _: &RunFooter<'_>) {}

    fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning.kind);
    }
}

fn told(text: &str) -> Told {
    let part = Part::bytes("session-1.jsonl", text.as_bytes().to_vec());
    let source = Source { main: &part, children: &[], prices: PriceTable::embedded() };
    let mut told = Told::default();
    crate::format("gemini-cli").unwrap().read(&source, &mut told);
    told
}

const HEADER: &str = r#"{"sessionId":"s","projectHash":"p"}"#;

fn call(id: &str, input: u64) -> String {
    format!(
        r#"{{"id":"{id}","type":"gemini","content":"x","model":"m","tokens":{{"input":{input},"output":1,"cached":0}}}}"#
    )
}

#[test]
fn a_message_counts_as_it_was_last_written_and_a_rewound_one_all_the_same() {
    let rewind = r#"{"$rewindTo":"a"}"#;
    let (a, more, b) = (call("a", 10), call("a", 20), call("b", 30));
    let told = told(&format!("{HEADER}\n{a}\n{more}\n{rewind}\n{b}\n{a}\n"));
    assert_eq!(told.replies, [Some(21), Some(31)]);
    assert_eq!(told.warnings, [WarningKind::LateLine]);
    assert_eq!(told.runs, ["s"]);
}

#[test]
fn words_that_the_tool_put_into_mouths_are_no_calls_and_no_turns() {
    let synthetic = r#"{"id":"a","type":"gemini","content":[{"text":"Got it."}]}"#;
    let notes = [
        r#""/help""#,
        r#""<session_context> today""#,
        r#"[{"functionResponse":{}},{"text":"x"}]"#,
        r#""""#,
    ];
    let notes =
        notes.map(|note| format!(r#"{{"id":"{}","type":"user","content":{note}}}"#, note.len()));
    let person = r#"{"id":"p","type":"user","content":["Hello"]}"#;
    let told = told(&format!("{HEADER}\n{synthetic}\n{}\n{person}\n{person}\n", notes.join("\n")));
    assert_eq!((told.replies.len(), told.turns), (0, 1));
}

#[test]
fn thoughts_are_output_and_cached_tokens_input() {
    let line = r#"{"id":"a","type":"gemini","model":"gemini-2.5-pro","tokens":{"input":5423,"output":170,"cached":1381,"thoughts":48,"tool":7,"total":5648}}"#;
    assert_eq!(told(&format!("{HEADER}\n{line}\n")).replies, [Some(5_648)]);
}

#[test]
fn sub_agents_belong_to_the_newest_session_of_their_directories_name() {
    let root = std::env::temp_dir().join(format!("endstop-gemini-{}", std::process::id()));
    let directory = root.join(CHATS).join("abcdef01-full-id");
    fs::create_dir_all(&directory).unwrap();
    let main = root.join(CHATS).join("session-2026-11-02T10-00-abcdef01.jsonl");
    fs::write(&main, HEADER).unwrap();
    fs::write(main.with_file_name("session-2026-11-02T10-00-ffffffff.jsonl"), HEADER).unwrap();
    let child = directory.join("worker.jsonl");
    let head = Head::new(HEADER.as_bytes(), b"");
    assert!(detect(&head));
    assert_eq!(parent(&child, &head), Some(main.clone()));
    assert_eq!(parent(&main, &head), None);
    assert_eq!(companions(&main), [directory]);
    let old = main.with_extension("json");
    assert_eq!(shadowed_by(&old), Some(main));
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_document_is_named_by_its_session_wherever_that_stands() {
    let (a, b) = (call("a", 10), call("b", 20));
    let told = told(&format!(
        "{{\"messages\":[\n{a},\n{b}\n],\"projectHash\":\"p\",\"sessionId\":\"late\"}}"
    ));
    assert_eq!((told.runs, told.replies), (vec!["late".to_owned()], vec![Some(11), Some(21)]));
}
