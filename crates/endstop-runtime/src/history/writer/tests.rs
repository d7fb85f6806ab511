//! Entries that are left in the journal.

use super::*;
use crate::history::entry::EndEntry;

fn end_of(run: &str) -> HistoryEntry {
    HistoryEntry::End(EndEntry {
        run: run.to_owned(),
        row: None,
        at: Some(1),
        status: "finished".into(),
        reason: None,
        text: None,
    })
}

#[test]
fn what_follows_entries_that_are_left_in_the_journal_is_left_in_it_too() {
    let directory = std::env::temp_dir().join(format!("endstop-history-{}", RunId::new()));
    let origin = HistoryOrigin {
        kind: "serve".to_owned(),
        program: String::new(),
        directory: ".".to_owned(),
    };
    let process = ProcessFacts { id: "process-1".to_owned(), origin };
    let journal = OwnJournal::create(&directory.join("history.sqlite"), &process).unwrap();
    let mut queue = JournalQueue { journal: Some(journal), ..JournalQueue::default() };
    let mut tables = Writing::default();
    let append = |queue: &mut JournalQueue, run: &str| {
        queue.journal.as_mut().unwrap().append(&end_of(run)).unwrap();
        queue.waiting.push(end_of(run));
    };
    append(&mut queue, "left");
    tables.take_in(&mut queue);
    tables.give_up_waiting();
    // A call can be settled between that and the end of the journal.
    append(&mut queue, "after");
    tables.take_in(&mut queue);
    assert_eq!((tables.mark.as_ref(), tables.waiting.len()), (None, 0));
    assert_eq!((queue.waiting.len(), tables.missing), (0, 0));
    std::fs::remove_dir_all(directory).unwrap();
}
