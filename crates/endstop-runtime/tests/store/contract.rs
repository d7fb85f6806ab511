//! The behavior of every store.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use endstop_runtime::store::{
    Durability, MAX_APPEND_BYTES, MAX_STATE_BYTES, PAGE_BYTES, PAGE_LINES, RunId, RunSummary,
    StoreError, StoredState, Version,
};

use super::place::{Kind, Place, id, whole_trace};

macro_rules! on {
    ($module:ident, $kind:ident, [$($test:ident),*]) => {
        mod $module {
            use super::{Kind, Place};
            $(
                #[tokio::test]
                async fn $test() {
                    let name = concat!(stringify!($module), "-", stringify!($test));
                    super::$test(&Place::new(Kind::$kind, name)).await;
                }
            )*
        }
    };
}

macro_rules! contract {
    ($($test:ident),* $(,)?) => {
        on!(memory, Memory, [$($test),*]);
        on!(file, File, [$($test),*]);
        on!(file_power, FilePower, [$($test),*]);
        #[cfg(feature = "sqlite")]
        on!(sqlite, Sqlite, [$($test),*]);
        #[cfg(feature = "sqlite")]
        on!(sqlite_power, SqlitePower, [$($test),*]);
    };
}

contract!(
    it_says_what_it_survives,
    an_empty_store_has_nothing,
    versions_count_up,
    a_conflict_changes_nothing,
    of_many_savers_one_wins,
    savers_who_expect_nothing_all_succeed,
    text_comes_back_as_it_was,
    a_large_state_is_kept_and_a_too_large_one_refused,
    traces_are_lines,
    many_appenders_keep_their_lines_whole,
    a_page_is_bounded,
    the_last_saved_is_listed_first,
    what_was_removed_is_gone,
    a_run_has_one_driver,
    a_second_handle_sees_the_same,
    dropped_futures_leave_whole_states,
);

async fn it_says_what_it_survives(place: &Place) {
    let expected = match place.kind {
        Kind::Memory => Durability::Memory,
        Kind::File => Durability::Process,
        Kind::FilePower => Durability::Power,
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => Durability::Process,
        #[cfg(feature = "sqlite")]
        Kind::SqlitePower => Durability::Power,
    };
    assert_eq!(place.open().durability(), expected);
}

async fn an_empty_store_has_nothing(place: &Place) {
    let store = place.open();
    let run = RunId::new();
    assert_eq!(store.load(&run).await.unwrap(), None);
    assert_eq!(store.read_trace(&run, 0).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.read_trace(&run, 7).await.unwrap(), Vec::<String>::new());
    assert_eq!(store.list().await.unwrap(), []);
    assert!(!store.remove(&run).await.unwrap());
}

async fn versions_count_up(place: &Place) {
    let store = place.open();
    let run = id("count");
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    assert_eq!(store.save(&run, "a", Some(Version(0))).await.unwrap(), Version(1));
    assert_eq!(store.save(&run, "b", None).await.unwrap(), Version(2));
    assert_eq!(store.save(&run, "c", Some(Version(2))).await.unwrap(), Version(3));
    let StoredState { version, saved_at, text } = store.load(&run).await.unwrap().unwrap();
    assert_eq!((version, text.as_str()), (Version(3), "c"));
    assert!((before..before + 60_000).contains(&saved_at), "{saved_at} after {before}");
}

async fn a_conflict_changes_nothing(place: &Place) {
    let store = place.open();
    let run = id("conflict");
    for (expected, found) in [(5, 0), (0, 1), (2, 1)] {
        if found == 1 {
            drop(store.save(&run, "kept", Some(Version(0))).await);
        }
        let error = store.save(&run, "lost", Some(Version(expected))).await.unwrap_err();
        let StoreError::Conflict { run: named, expected: asked, found: there } = &error else {
            panic!("{error}");
        };
        assert_eq!((named, asked.0, there.0), (&run, expected, found));
        assert!(error.to_string().contains("run `conflict`"), "{error}");
    }
    let state = store.load(&run).await.unwrap().unwrap();
    assert_eq!((state.version, state.text.as_str()), (Version(1), "kept"));
}

async fn of_many_savers_one_wins(place: &Place) {
    let run = id("race");
    let stores = [place.open(), place.open()];
    for round in 0..5 {
        let savers: Vec<_> = (0..8)
            .map(|saver: usize| {
                let (store, run) = (stores[saver % 2].clone(), run.clone());
                tokio::spawn(async move {
                    store.save(&run, &format!("{round}-{saver}"), Some(Version(round))).await
                })
            })
            .collect();
        let mut winners = Vec::new();
        for (saver, task) in savers.into_iter().enumerate() {
            match task.await.unwrap() {
                Ok(version) => winners.push((saver, version)),
                Err(StoreError::Conflict { found, .. }) => assert_eq!(found, Version(round + 1)),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let (saver, version) = winners[0];
        let state = stores[0].load(&run).await.unwrap().unwrap();
        assert_eq!((state.version, version), (Version(round + 1), Version(round + 1)));
        assert_eq!(state.text, format!("{round}-{saver}"));
    }
}

async fn savers_who_expect_nothing_all_succeed(place: &Place) {
    let run = id("crowd");
    let stores = [place.open(), place.open()];
    let savers: Vec<_> = (0..16)
        .map(|saver: usize| {
            let (store, run) = (stores[saver % 2].clone(), run.clone());
            tokio::spawn(async move { store.save(&run, "state", None).await.unwrap().0 })
        })
        .collect();
    let mut versions = Vec::new();
    for saver in savers {
        versions.push(saver.await.unwrap());
    }
    versions.sort_unstable();
    assert_eq!(versions, (1..=16).collect::<Vec<u64>>());
}

async fn text_comes_back_as_it_was(place: &Place) {
    let store = place.open();
    let texts = [
        "",
        "\n",
        "a\nb\r\n\n",
        "grüße 🛑 \u{202e}عربي",
        "nul \0 and \u{1}",
        "{\"label\":\"x\"}\n",
    ];
    for (number, text) in texts.iter().enumerate() {
        let run = id(&format!("text-{number}"));
        store.save(&run, text, None).await.unwrap();
        assert_eq!(store.load(&run).await.unwrap().unwrap().text, *text);
    }
    let run = id("text-trace");
    store.append(&run, "grüße 🛑\n{\"a\":\"\\u0000\"}").await.unwrap();
    assert_eq!(whole_trace(&*store, &run).await, ["grüße 🛑", "{\"a\":\"\\u0000\"}"]);
}

async fn a_large_state_is_kept_and_a_too_large_one_refused(place: &Place) {
    let store = place.open();
    let run = id("large");
    let large = "0123456789abcdef".repeat((3 << 20) / 16);
    store.save(&run, &large, None).await.unwrap();
    let too_large = " ".repeat(MAX_STATE_BYTES + 1);
    let error = store.save(&run, &too_large, None).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { what: "state", .. }), "{error}");
    let error = store.append(&run, &too_large[..=MAX_APPEND_BYTES]).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { what: "append", .. }), "{error}");
    assert!(store.load(&run).await.unwrap().unwrap().text == large);
    assert_eq!(store.list().await.unwrap()[0].bytes, large.len() as u64);
    assert_eq!(whole_trace(&*store, &run).await, Vec::<String>::new());
}

async fn traces_are_lines(place: &Place) {
    let store = place.open();
    let run = id("trace");
    for lines in ["a\n", "", "b\nc\n", "d", "\n", "e\n\nf"] {
        store.append(&run, lines).await.unwrap();
    }
    let all = ["a", "b", "c", "d", "", "e", "", "f"];
    for from in 0..=all.len() {
        assert_eq!(store.read_trace(&run, from as u64).await.unwrap(), all[from..]);
    }
    assert_eq!(store.read_trace(&run, u64::from(u32::MAX)).await.unwrap(), Vec::<String>::new());
    // A trace alone is not a run that could be resumed.
    assert_eq!(store.list().await.unwrap(), []);
    assert_eq!(store.load(&run).await.unwrap(), None);
}

async fn many_appenders_keep_their_lines_whole(place: &Place) {
    let run = id("appenders");
    let stores = [place.open(), place.open()];
    let appenders: Vec<_> = (0..4)
        .map(|appender: usize| {
            let (store, run) = (stores[appender % 2].clone(), run.clone());
            tokio::spawn(async move {
                for number in 0..10 {
                    let length = if number == 5 { 100_000 } else { 10 };
                    let line = format!("{appender} {number} {}\n", "x".repeat(length));
                    store.append(&run, &line.repeat(2)).await.unwrap();
                }
            })
        })
        .collect();
    for appender in appenders {
        appender.await.unwrap();
    }
    let lines = whole_trace(&*stores[0], &run).await;
    assert_eq!(lines.len(), 4 * 10 * 2);
    assert!(lines.chunks(2).all(|pair| pair[0] == pair[1]), "lines of an append lie together");
    for appender in 0..4 {
        let start = format!("{appender} ");
        let own: Vec<_> = lines.iter().filter(|line| line.starts_with(&start)).collect();
        let numbers: Vec<_> = own.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert!(numbers.is_sorted() && numbers.len() == 20, "{numbers:?}");
    }
}

async fn a_page_is_bounded(place: &Place) {
    let store = place.open();
    let (long, wide) = (id("long"), id("wide"));
    store.append(&long, &"x\n".repeat(PAGE_LINES + 5)).await.unwrap();
    assert_eq!(store.read_trace(&long, 0).await.unwrap().len(), PAGE_LINES);
    assert_eq!(whole_trace(&*store, &long).await.len(), PAGE_LINES + 5);
    let line = "x".repeat(PAGE_BYTES / 2);
    store.append(&wide, &format!("{line}\n{line}\n{line}\n")).await.unwrap();
    assert_eq!(store.read_trace(&wide, 0).await.unwrap().len(), 2);
    assert_eq!(whole_trace(&*store, &wide).await.len(), 3);
}

async fn the_last_saved_is_listed_first(place: &Place) {
    const THIRD: &str = "{\"steps\":[{}],\"label\":\"third\\n🛑\"}";
    let store = place.open();
    for (run, state) in [
        ("b", "{\"label\":\"first\"}"),
        ("a", "no label"),
        ("c", THIRD),
        ("b", "{\"label\":\"fourth\"}"),
    ] {
        store.save(&id(run), state, None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let runs = place.open().list().await.unwrap();
    let told: Vec<_> = runs
        .iter()
        .map(|RunSummary { id, version, label, bytes, problem, .. }| {
            (id.as_str(), version.0, label.as_str(), *bytes, problem.as_deref())
        })
        .collect();
    let third = "third 🛑";
    assert_eq!(
        told,
        [
            ("b", 2, "fourth", 18, None),
            ("c", 1, third, THIRD.len() as u64, None),
            ("a", 1, "", 8, None)
        ]
    );
    for run in &runs {
        let state = store.load(&run.id).await.unwrap().unwrap();
        assert_eq!((state.version, state.saved_at), (run.version, run.saved_at));
    }
}

async fn what_was_removed_is_gone(place: &Place) {
    let store = place.open();
    let (run, other, traced) = (id("gone"), id("gone.2"), id("traced"));
    for run in [&run, &other] {
        store.save(run, "state", None).await.unwrap();
    }
    for run in [&run, &other, &traced] {
        store.append(run, "line").await.unwrap();
    }
    assert!(store.remove(&run).await.unwrap());
    assert!(!store.remove(&run).await.unwrap());
    assert!(store.remove(&traced).await.unwrap());
    assert_eq!(store.load(&run).await.unwrap(), None);
    assert_eq!(whole_trace(&*store, &run).await, Vec::<String>::new());
    assert_eq!(whole_trace(&*store, &other).await, ["line"]);
    assert_eq!(store.list().await.unwrap().len(), 1);
    assert_eq!(store.save(&run, "again", Some(Version(0))).await.unwrap(), Version(1));
    store.append(&run, "again").await.unwrap();
    assert_eq!(whole_trace(&*store, &run).await, ["again"]);
}

async fn a_run_has_one_driver(place: &Place) {
    let (one, two) = (place.open(), place.open());
    let run = id("driven");
    let lock = one.lock(&run).await.unwrap();
    assert_eq!(lock.run(), &run);
    for store in [&one, &two] {
        let error = store.lock(&run).await.unwrap_err();
        let StoreError::Locked { run: named, pid } = &error else { panic!("{error}") };
        assert_eq!((named, *pid), (&run, Some(std::process::id())));
        assert!(matches!(store.remove(&run).await, Err(StoreError::Locked { .. })));
    }
    let other = two.lock(&id("other")).await.unwrap();
    two.save(&run, "state", None).await.unwrap();
    two.append(&run, "line").await.unwrap();
    drop(lock);
    let lock = two.lock(&run).await.unwrap();
    drop(one);
    assert!(matches!(place.open().lock(&run).await, Err(StoreError::Locked { .. })));
    drop((lock, other));
    assert!(two.remove(&run).await.unwrap());
}

async fn a_second_handle_sees_the_same(place: &Place) {
    let run = id("shared");
    let (one, two) = (place.open(), place.open());
    one.save(&run, "a", Some(Version(0))).await.unwrap();
    assert_eq!(two.load(&run).await.unwrap().unwrap().text, "a");
    two.append(&run, "1").await.unwrap();
    one.append(&run, "2").await.unwrap();
    assert_eq!(two.save(&run, "b", Some(Version(1))).await.unwrap(), Version(2));
    drop((one, two));
    let reopened = place.open();
    assert_eq!(reopened.load(&run).await.unwrap().unwrap().text, "b");
    assert_eq!(whole_trace(&*reopened, &run).await, ["1", "2"]);
    assert_eq!(reopened.save(&run, "c", Some(Version(2))).await.unwrap(), Version(3));
}

async fn dropped_futures_leave_whole_states(place: &Place) {
    let store = place.open();
    let run = id("dropped");
    store.save(&run, "first", None).await.unwrap();
    for number in 0..20 {
        let state = format!("state {number} ").repeat(1000);
        let saving = store.save(&run, &state, None);
        // Polled once, or left after it has begun.
        drop(tokio::time::timeout(Duration::from_micros(number * 50), saving).await);
    }
    let last = store.save(&run, "last", None).await.unwrap();
    let state = store.load(&run).await.unwrap().unwrap();
    assert!(state.version >= last && last.0 <= 22, "{last}");
    let word = state.text.split(' ').next().unwrap();
    assert!(state.text == "last" || word == "state" && state.text.len() >= 8000);
}
