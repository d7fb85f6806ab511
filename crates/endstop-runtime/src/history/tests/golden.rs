//! The file of the history as it is written: a file like it is read back.

use super::*;
use crate::golden_file::golden;

/// The rows of each table as statements, and their order. The name of a process is random.
const ROWS: [(&str, &str); 3] = [
    (
        "format('INSERT INTO run VALUES (%s, %s, ''process-1'', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)',
         quote(number), quote(id), quote(root), quote(parent), quote(kind), quote(program), quote(directory),
         quote(agent), quote(began), quote(ended), quote(status), quote(reason), quote(text))",
        "run ORDER BY number",
    ),
    (
        "format('INSERT INTO call VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)',
         quote(number), quote(run), quote(root), quote(at), quote(model), quote(provider), quote(tool),
         quote(input), quote(cached), quote(output), quote(picos), quote(unconfirmed_picos), quote(is_priced),
         quote(is_estimate), quote(key), quote(budgets), quote(charge))",
        "call ORDER BY number",
    ),
    (
        "format('INSERT INTO act VALUES (%s, %s, %s, %s, %s, %s, %s)',
         quote(number), quote(run), quote(at), quote(who), quote(what), quote(detail), quote(why))",
        "act ORDER BY number",
    ),
];

/// A run with an act and its end, a sub-agent, and calls of each kind.
fn fill(recorder: &HistoryRecorder) {
    let mut play = Play::new(recorder, "nightly", Policy::from(max_steps(9)));
    play.tell(0, EventKind::RunBegin { agent: None, depth: 0 }, Detail::None);
    play.tell(1, EventKind::PauseRequested { by: "ann", why: "lunch" }, Detail::None);
    play.tell(4, EventKind::ResumeRequested { by: "bob", why: "" }, Detail::None);
    settle(recorder, &play.info, 16);
    let child = play.child("nightly-1", "helper", Policy::from(max_steps(9)));
    let of_child = SettledCall {
        root: &play.info,
        wall: WallTime(BEGAN + 18),
        spender: Spender::Model { model: "local-model", provider: "" },
        usage: Some(TokenUsage { input: 5, output: 1, ..TokenUsage::default() }),
        cost: Money::ZERO,
        is_priced: false,
        unconfirmed: Money::ZERO,
        is_estimate: true,
        is_run_over: false,
        budgets: &[],
        key: None,
        number: Some(2),
    };
    recorder.settled(&child.info, &of_child);
    let of_tool = SettledCall {
        wall: WallTime(BEGAN + 19),
        spender: Spender::Tool { tool: "search" },
        usage: None,
        cost: Money::from_picos(2_000),
        is_priced: true,
        unconfirmed: Money::from_picos(2_000),
        is_estimate: false,
        number: Some(3),
        ..of_child
    };
    recorder.settled(&play.info, &of_tool);
    play.tell(15, EventKind::Kill { message: "wrong repo (killed by ann)" }, Detail::None);
    play.end();
}

/// The run and its calls, as they are read.
fn read(file: &TestFile) -> (RecordedRun, Vec<RecordedCall>) {
    let history = History::open(&file.0).unwrap().unwrap();
    let run = history.run("nightly").unwrap().unwrap();
    let mut calls = Vec::new();
    history.each_call_of(&run, |call| calls.push(call)).unwrap();
    (run, calls)
}

fn dump(file: &TestFile) -> String {
    let connection = Connection::open(&file.0).unwrap();
    let texts = |select: &str| {
        let mut statement = connection.prepare(select).unwrap();
        let rows = statement.query_map((), |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    // Tables before their indexes.
    let mut dump =
        texts("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name");
    for pragma in ["application_id", "user_version"] {
        let value: i64 = connection.pragma_query_value(None, pragma, |row| row.get(0)).unwrap();
        dump.push(format!("PRAGMA {pragma} = {value}"));
    }
    for (row, table) in ROWS {
        dump.extend(texts(&format!("SELECT {row} FROM {table}")));
    }
    format!("{};", dump.join(";\n"))
}

#[test]
fn a_file_of_version_2_is_written_and_one_of_version_1_is_read_too() {
    let written = TestFile::new();
    let recorder = written.recorder();
    fill(&recorder);
    let stored = golden("history-v2.sql", &dump(&written), &[]);
    is_read_and_continued(&written, &stored);
    is_read_and_continued(&written, include_str!("../../../tests/golden/history-v1.sql"));
}

fn is_read_and_continued(written: &TestFile, stored: &str) {
    let again = TestFile::new();
    std::fs::create_dir_all(again.0.parent().unwrap()).unwrap();
    Connection::open(&again.0).unwrap().execute_batch(stored).unwrap();
    let (run, calls) = read(&again);
    assert_eq!((&run, &calls), (&read(written).0, &read(written).1));
    assert_eq!((run.began, run.ended), (WallTime(BEGAN), Some(WallTime(BEGAN + 20))));
    assert_eq!(run.text.as_deref(), Some("wrong repo (killed by ann)"));
    let acts: Vec<_> = run.acts.iter().map(|act| (&*act.what, act.why.as_deref())).collect();
    assert_eq!(
        acts,
        [("paused", Some("lunch")), ("resumed", None), ("killed", Some("wrong repo"))]
    );
    let spent: Vec<_> =
        calls.iter().map(|call| (call.cost.picos(), call.tool.as_deref())).collect();
    assert_eq!(
        (spent, run.sub_agents),
        (vec![(1_000, None), (0, None), (2_000, Some("search"))], 1)
    );
    // The run continues in it.
    let resumed = RunInfo { is_resumed: true, ..info("nightly") };
    settle(&again.recorder(), &resumed, 30);
    let (continued, calls) = read(&again);
    assert_eq!((continued.status, calls.len()), (None, 4));
}
