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

/// A call of a run that continues from a log with its first call.
fn continued(run: &str, at: u64) -> HistoryEntry {
    let mut entry = call(run, None, at);
    if let HistoryEntry::Call(call) = &mut entry {
        call.run.is_resumed = true;
        call.charge = Some(at);
        call.log = Some(LoggedPart { charged: 1, until: 1 });
    }
    entry
}

fn pause(run: &str) -> HistoryEntry {
    let mut entry = end(run, 0);
    if let HistoryEntry::End(end) = &mut entry {
        (end.at, end.status) = (None, "paused".into());
    }
    entry
}

/// A run with the number of its calls, its end, and the name of the run that began it.
type Found = (String, u64, Option<i64>, Option<String>);

/// The runs of a new file after each process has written its entries together.
fn runs(lists: &[(&str, &[HistoryEntry])]) -> Vec<Found> {
    let directory = std::env::temp_dir().join(format!("endstop-rows-{}", RunId::new()));
    std::fs::create_dir(&directory).unwrap();
    let mut connection = open(&directory.join("history.sqlite"), Duration::ZERO).unwrap();
    let origin = HistoryOrigin {
        kind: "serve".to_owned(),
        program: "gateway".to_owned(),
        directory: "shop".to_owned(),
    };
    for (id, entries) in lists {
        let process = ProcessFacts { id: (*id).to_owned(), origin: origin.clone() };
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
    let lists: [Vec<HistoryEntry>; 5] = [
        vec![call("a", None, 2), call("b", None, 3), call("a", None, 4)],
        vec![call("a", None, 2), end("a", 3)],
        // It continues: its end is removed.
        vec![call("a", None, 2), end("a", 3), call("a", None, 4)],
        vec![call("below", Some("a"), 2), end("below", 3), call("a", None, 4), end("a", 5)],
        // Another process began it. The log has the first of its calls, and lacks the second.
        vec![continued("before", 3), pause("before"), call("before", None, 4), end("before", 5)],
    ];
    let mut logged = call("before", None, 1);
    let mut lost = call("before", None, 2);
    for (entry, number) in [(&mut logged, 1), (&mut lost, 2)] {
        let HistoryEntry::Call(call) = entry else { unreachable!("both are calls") };
        call.charge = Some(number);
    }
    let before = [logged, lost, end("before", 2)];
    let found = lists.map(|entries| {
        let begin = [("process-0", &before[..])];
        let one_by_one = entries.chunks(1).map(|entry| ("process-1", entry));
        let one_by_one: Vec<_> = begin.into_iter().chain(one_by_one).collect();
        let together = runs(&[begin[0], ("process-1", &entries)]);
        assert_eq!(together, runs(&one_by_one));
        together
    });
    let row = |id: &str, calls, ended, root: Option<&str>| {
        (id.to_owned(), calls, ended, root.map(str::to_owned))
    };
    let [calls, ended, goes_on, nested, taken_over] = found;
    let earlier = row("before", 2, Some(2), None);
    assert_eq!(calls, [earlier.clone(), row("a", 2, None, None), row("b", 1, None, None)]);
    assert_eq!(ended, [earlier.clone(), row("a", 1, Some(3), None)]);
    assert_eq!(goes_on, [earlier.clone(), row("a", 2, None, None)]);
    let below = row("below", 1, Some(3), Some("a"));
    assert_eq!(nested, [earlier, row("a", 1, Some(5), None), below]);
    assert_eq!(taken_over, [row("before", 3, Some(5), None)]);
}
