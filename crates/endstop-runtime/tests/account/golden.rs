//! The file of budgets as it is written: a file like it is read back.

use endstop_runtime::account::{
    Account, Adjustment, BudgetStore as _, HoldTerms, SqliteBudgetStore,
};
use endstop_runtime::ledger::Amounts;
use endstop_runtime::store::RunId;
use rusqlite::Connection;

use super::golden_file::golden;
use super::stores::*;

const BEGUN: u64 = MIDNIGHT + 20 * HOUR;

/// The rows of each table as statements, and their order.
const ROWS: [(&str, &str); 4] = [
    ("format('INSERT INTO clock VALUES (%d)', latest)", "clock ORDER BY latest"),
    (
        "format('INSERT INTO counter VALUES (%Q, %Q, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d)',
         account, kind, ended, begun, settled_steps, settled_tokens, settled_picos, held_steps, held_tokens,
         held_picos, unconfirmed_steps, unconfirmed_tokens, unconfirmed_picos)",
        "counter ORDER BY account, kind, ended, begun",
    ),
    (
        "format('INSERT INTO hold VALUES (%Q, %Q, %d, %d, %d, %d, %d, %Q)',
         id, owner, expires, state, steps, tokens, picos, places)",
        "hold ORDER BY id",
    ),
    (
        "format('INSERT INTO adjustment VALUES (%Q, %d, %Q, %Q, %Q, %Q, %Q)',
         id, at, account, who, why, spent, returned)",
        "adjustment ORDER BY id",
    ),
];

fn me() -> Account {
    account("me", &["$5 per day", "1000 steps per rolling 5h"])
}

fn call(cents_of_call: u64) -> Amounts {
    Amounts { steps: 1, ..cents(cents_of_call) }
}

fn correction(me: &Account) -> Adjustment<'_> {
    Adjustment {
        id: "adjust-1",
        account: me,
        parents: &[],
        spent: Amounts { tokens: 7, ..cents(1) },
        returned: Amounts::ZERO,
        who: "ann",
        why: "spent elsewhere",
    }
}

/// A hold that expired, one that was settled, one that is held, and a correction.
fn fill(store: &SqliteBudgetStore, clock: &Clock) {
    let me = me();
    let reserve = |id| {
        let terms = HoldTerms { id, owner: "pid 7", ttl: TTL };
        store.reserve(&[&me], call(10), &terms).unwrap();
    };
    reserve("expired");
    clock.set(BEGUN + 61_000);
    reserve("settled");
    store.settle("settled", call(3)).unwrap();
    reserve("held");
    store.adjust(&correction(&me)).unwrap();
}

fn check(store: &SqliteBudgetStore) {
    let me = me();
    let state = store.read(&[&me]).unwrap().remove(0);
    let counts = state.limits.iter().map(|limit| (limit.settled, limit.held, limit.unconfirmed));
    let cent = 10_000_000_000;
    assert_eq!(counts.collect::<Vec<_>>(), [(14 * cent, 10 * cent, 10 * cent), (2, 1, 1)]);
    let past = store.adjustments("me", 9).unwrap();
    let [past] = &past[..] else { panic!("{past:?}") };
    assert_eq!((past.at.0, past.spent), (BEGUN + 61_000, correction(&me).spent));
    assert_eq!((past.who.as_str(), past.why.as_str()), ("ann", "spent elsewhere"));
    // Calls and corrections of before continue: each id is known.
    store.adjust(&correction(&me)).unwrap();
    store.settle("settled", call(9)).unwrap();
    store.settle("expired", call(2)).unwrap();
    store.settle("held", call(4)).unwrap();
    assert_eq!(committed(store, &me), (3 + 1 + 2 + 4, 0));
    assert_eq!(first(store, &me).unconfirmed, 0);
}

#[test]
fn a_file_of_version_1_is_written_and_read() {
    let directory = std::env::temp_dir().join(format!("endstop-golden-{}", RunId::new()));
    let clock = Clock::at(BEGUN);
    let open = |name: &str| {
        SqliteBudgetStore::open_with_clock(directory.join(name), clock.wall()).unwrap()
    };
    let store = open("budgets.sqlite");
    fill(&store, &clock);
    let connection = Connection::open(directory.join("budgets.sqlite")).unwrap();
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
    let stored = golden("budgets-v1.sql", &format!("{};", dump.join(";\n")), &[]);

    Connection::open(directory.join("again.sqlite")).unwrap().execute_batch(&stored).unwrap();
    check(&open("again.sqlite"));
    check(&store);
    drop((connection, store));
    std::fs::remove_dir_all(&directory).unwrap();
}
