//! Entries that are written in one transaction.

use super::*;
use crate::store::RunId;

fn facts(id: &str) -> RunFacts {
    let (id, agent) = (id.to_owned(), "main".to_owned());
    RunFacts { id, parent: None, agent, began: 1, is_resumed: false }
}

fn call(run: &str, root: Option<&str>, at: u64) -> HistoryEntry {
    HistoryEntry::Call(Box::new(CallEntry {
        run: facts(run),
        root: root.map(facts),
        at,
        model: Some("gpt-5.2".to_owned()),
        provider: None,
        tool: None,
        amounts: [7, 3, 2, 1_000, 0],
        is_priced: true,
        is_estimate: false,
        is_run_over: false,
        key: None,
        budgets: None,
        charge: None,
        log: None,
    }))
}

fn end(run: &str, at: u64) -> HistoryEntry {
    HistoryEntry::End(EndEntry {
        run: run.to_owned(),
        row: None,
        at: Some(at),
        status: "completed".into(),
        reason: None,
        text: None,
    })
}

/// A run with the number of its calls, its end, and the name of the run that began it.
type Found = (String, u64, Option<i64>, Option<String>);

/// The runs of a new file after the entries of each list were written together.
fn runs(lists: &[&[HistoryEntry]]) -> Vec<Found> {
    let directory = std::env::temp_dir().join(format!("endstop-rows-{}", RunId::new()));
    std::fs::create_dir(&directory).unwrap();
    let mut connection = open(&directory.join("history.sqlite"), Duration::ZERO).unwrap();
    let origin = HistoryOrigin {
        kind: "serve".to_owned(),
        program: "gateway".to_owned(),
        directory: "shop".to_owned(),
    };
    let process = ProcessFacts { id: "process-1".to_owned(), origin };
    for entries in lists {
        write(&mut connection, &process, entries, None).unwrap();
    }
    let select = "
        SELECT id, (SELECT count(*) FROM call WHERE call.run = run.number), ended,
            (SELECT id FROM run AS above WHERE above.number = run.root)
        FROM run ORDER BY number";
    let mut select = connection.prepare(select).unwrap();
    let row = |row: &Row<'_>| Ok((row.get(0)?, unsigned(row.get(1)?), row.get(2)?, row.get(3)?));
    let found = select.query_map((), row).unwrap().map(Result::unwrap).collect();
    drop(select);
    drop(connection);
    std::fs::remove_dir_all(directory).unwrap();
    found
}

#[test]
fn entries_that_are_written_together_are_as_if_written_one_by_one() {
    let lists: [Vec<HistoryEntry>; 4] = [
        vec![call("a", None, 2), call("b", None, 3), call("a", None, 4)],
        vec![call("a", None, 2), end("a", 3)],
        // It continues: its end is removed.
        vec![call("a", None, 2), end("a", 3), call("a", None, 4)],
        vec![call("below", Some("a"), 2), end("below", 3), call("a", None, 4), end("a", 5)],
    ];
    for entries in &lists {
        let one_by_one: Vec<&[HistoryEntry]> = entries.chunks(1).collect();
        assert_eq!(runs(&[entries]), runs(&one_by_one));
    }
    let [calls, ended, continued, nested] = lists.map(|entries| runs(&[&entries]));
    let row = |id: &str, calls, ended, root: Option<&str>| {
        (id.to_owned(), calls, ended, root.map(str::to_owned))
    };
    assert_eq!(calls, [row("a", 2, None, None), row("b", 1, None, None)]);
    assert_eq!(ended, [row("a", 1, Some(3), None)]);
    assert_eq!(continued, [row("a", 2, None, None)]);
    assert_eq!(nested, [row("a", 1, Some(5), None), row("below", 1, Some(3), Some("a"))]);
}
