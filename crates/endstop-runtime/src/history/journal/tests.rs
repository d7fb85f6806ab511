//! Lines of journals, and journals that are taken over.

use std::fs;

use super::*;
use crate::golden_file::golden;
use crate::history::entry::EndEntry;
use crate::history::{History, HistoryOrigin};
use crate::store::RunId;

fn process() -> ProcessFacts {
    let origin = HistoryOrigin {
        kind: "serve".to_owned(),
        program: "gateway".to_owned(),
        directory: "shop".to_owned(),
    };
    ProcessFacts { id: "process-1".to_owned(), origin }
}

/// The end of a run, with a row for it.
fn entry(run: &str) -> HistoryEntry {
    let row = crate::history::entry::RunFacts {
        id: run.to_owned(),
        parent: None,
        agent: "main".to_owned(),
        began: 1,
        is_resumed: false,
    };
    HistoryEntry::End(EndEntry {
        run: run.to_owned(),
        row: Some(row),
        at: Some(2),
        status: "stopped".into(),
        reason: None,
        text: None,
    })
}

/// A directory, and the files of a history and of a journal in it.
fn place() -> (PathBuf, PathBuf, PathBuf) {
    let directory = std::env::temp_dir().join(format!("endstop-journal-{}", RunId::new()));
    fs::create_dir_all(&directory).unwrap();
    let [file, journal] =
        ["history.sqlite", "history.sqlite-1.journal"].map(|name| directory.join(name));
    (directory, file, journal)
}

fn stored(runs: &[&str]) -> Vec<u8> {
    let lines = (1_u64..).zip(runs);
    let process = raw_json_of(&process());
    let mut stored = Vec::new();
    for (number, run) in lines {
        let (process, entry) = (&*process, &entry(run));
        push_json_line(&mut stored, &StoredLine { version: VERSION, number, process, entry });
    }
    stored
}

#[test]
fn a_line_has_its_number_its_process_and_its_entry() {
    let lines =
        golden("history-journal-v1.jsonl", str::from_utf8(&stored(&["a", "b"])).unwrap(), &[]);
    let JournalLines { lines, damaged, is_later } =
        JournalLines::of(format!("{lines}\n").as_bytes());
    let numbers = lines.iter().map(|line| line.number).collect::<Vec<_>>();
    assert_eq!((numbers, damaged, is_later), (vec![1, 2], 0, false));
}

#[test]
fn a_line_of_a_call_leaves_out_what_is_unknown_and_is_read_with_or_without_it() {
    let known = r#"{"call":{"run":{"id":"a","agent":"main","began":1,"is_resumed":false},"at":2,"model":"gpt-5.2","#;
    let amounts =
        r#""amounts":[7,3,2,1000,0],"is_priced":true,"is_estimate":false,"is_run_over":false"#;
    let without = format!("{known}{amounts}}}}}");
    let with = without
        .replace(r#""agent""#, r#""parent":null,"agent""#)
        .replace(r#""at""#, r#""root":null,"at""#)
        .replace(amounts, &format!(r#""provider":null,"tool":null,{amounts}"#))
        .replace("}}", r#","key":null,"budgets":null,"charge":null,"log":null}}"#);
    for text in [&without, &with] {
        let entry: HistoryEntry = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), without);
    }
}

#[test]
fn a_journal_that_is_cut_anywhere_has_its_whole_lines() {
    let whole = stored(&["a", "b"]);
    for length in 0..=whole.len() {
        let cut = &whole[..length];
        let JournalLines { lines, damaged, is_later } = JournalLines::of(cut);
        let ends = cut.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!((lines.len(), damaged, is_later), (ends, 0, false), "{length}");
    }
}

#[test]
fn the_journal_of_an_ended_process_is_taken_over_once() {
    let (directory, file, journal) = place();
    fs::write(&journal, stored(&["a", "b"])).unwrap();
    let history = History::open(&file).unwrap().unwrap();
    assert!(history.run("a").unwrap().is_some() && history.run("b").unwrap().is_some());
    assert!(!journal.exists());

    // A process that has the lock lives.
    fs::write(&journal, stored(&["c"])).unwrap();
    let held = fs::File::open(&journal).unwrap();
    held.lock().unwrap();
    let history = History::open(&file).unwrap().unwrap();
    assert!(history.run("c").unwrap().is_none() && journal.exists());
    drop((history, held));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_journal_of_a_later_version_stays_as_it_is() {
    let (directory, file, journal) = place();
    let later = "{\"version\":2,\"is\":\"unknown\"}\n";
    let text = [&stored(&["a"]), later.as_bytes()].concat();
    fs::write(&journal, &text).unwrap();
    let error = History::open(&file).unwrap_err().to_string();
    assert!(error.contains("a later version"), "{error}");
    assert_eq!(fs::read(&journal).unwrap(), text);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn lines_whose_entries_are_in_the_tables_are_not_written_again() {
    let (directory, file, journal) = place();
    let mut connection = crate::history::writer::create(&file, std::time::Duration::ZERO).unwrap();
    let mark = Some(("history.sqlite-1.journal", 1));
    rows::write(&mut connection, &process(), &[], mark).unwrap();
    fs::write(&journal, stored(&["a", "b"])).unwrap();
    take_over(&mut connection, &file).unwrap();
    drop(connection);
    let history = History::open(&file).unwrap().unwrap();
    assert!(history.run("a").unwrap().is_none() && history.run("b").unwrap().is_some());
    drop(history);
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn an_own_journal_has_the_appended_lines_until_it_is_cleared() {
    let directory = std::env::temp_dir().join(format!("endstop-journal-{}", RunId::new()));
    let mut own = OwnJournal::create(&directory.join("history.sqlite"), &process()).unwrap();
    own.append(&entry("a")).unwrap();
    own.append(&entry("b")).unwrap();
    assert_eq!(fs::read(&own.path).unwrap(), stored(&["a", "b"]));
    own.clear().unwrap();
    own.append(&entry("c")).unwrap();
    let JournalLines { lines, .. } = JournalLines::of(&fs::read(&own.path).unwrap());
    assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [3]);
    own.clear().unwrap();
    own.remove().unwrap();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    fs::remove_dir_all(&directory).unwrap();
}
