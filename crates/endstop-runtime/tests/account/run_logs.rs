//! Logs of runs: one contract for a directory and for Redis, and the further promises of a log that processes share.

use std::sync::Arc;

use endstop_core::condition::named::max_steps;
use endstop_core::probe::Probes;
use endstop_core::units::Millis;
use endstop_core::{Event, EventKind, Policy, Program};
use endstop_runtime::observe::RunInfo;
use endstop_runtime::store::RunId;
use endstop_runtime::trace::{
    DirectoryRunLog, OpenRun, RunLog, RunLogError, trace_header, trace_line,
};

pub(super) fn program() -> Arc<Program> {
    Arc::new(Program::new(&Policy::from(max_steps(9)), &Probes::new()).unwrap())
}

fn info(id: &RunId) -> RunInfo {
    RunInfo {
        id: id.clone(),
        parent: None,
        agent: "main".to_owned(),
        model: String::new(),
        provider: String::new(),
        depth: 0,
        is_resumed: false,
    }
}

/// A step, with the header if it is the first one.
pub(super) fn step(open: &OpenRun, id: &RunId) -> String {
    let header = open.replayed.is_none().then(|| trace_header(&info(id), None));
    let kinds = [EventKind::StepBegin, EventKind::StepEnd];
    let lines = kinds.map(|kind| trace_line(&Event::new(Millis(0), kind)));
    header.unwrap_or_default() + &lines.concat()
}

pub(super) fn add_step(open: &mut OpenRun, id: &RunId) {
    let lines = step(open, id);
    open.lines.append(lines.as_bytes()).unwrap();
}

pub(super) fn steps(open: &OpenRun) -> u64 {
    open.replayed.as_ref().map_or(0, |replayed| replayed.run().step_count())
}

/// The promises of every log of runs.
pub(super) fn contract(log: &dyn RunLog) {
    let (id, other, program) = (RunId::new(), RunId::new(), program());
    assert!(!log.has(&id).unwrap());
    for expected in 0..4 {
        let mut open = log.open(&id, &program).unwrap();
        assert_eq!(steps(&open), expected);
        // Nothing was written by opening it.
        assert_eq!(log.has(&id).unwrap(), expected > 0);
        add_step(&mut open, &id);
        open.lines.close();
        open.lines.rest().unwrap();
        open.lines.hold().unwrap();
        open.lines.append(b"").unwrap();
        open.lines.rest().unwrap();
    }
    let mut open = log.open(&other, &program).unwrap();
    assert_eq!(steps(&open), 0);
    add_step(&mut open, &other);
    let mut ids = log.ids(10).unwrap();
    ids.sort_unstable();
    let mut both = vec![id, other];
    both.sort_unstable();
    assert_eq!(ids, both);
    assert_eq!(log.ids(1).unwrap().len(), 1);
}

#[tokio::test]
async fn a_directory_is_a_log_of_runs() {
    let directory = std::env::temp_dir().join(format!("endstop-run-log-{}", RunId::new()));
    let log = DirectoryRunLog::open(&directory).await.unwrap();
    contract(&log);
    assert!(log.shared().is_none());
    let again = DirectoryRunLog::open(&directory).await;
    assert!(matches!(again, Err(RunLogError::Locked { .. })), "{again:?}");
    drop(log);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[cfg(feature = "redis")]
mod shared {
    use std::thread;
    use std::time::{Duration, Instant};

    use endstop_runtime::RunEnvironment;
    use endstop_runtime::RunHandle;
    use endstop_runtime::account::RedisBudgetStore;
    use endstop_runtime::trace::{AppendError, RedisRunLog, TraceFileError};

    use super::super::server::RedisServer;
    use super::*;

    /// Far longer than a test.
    const LONG: Duration = Duration::from_secs(3_600);

    fn log(server: &RedisServer, name: &str) -> RedisRunLog {
        let store = RedisBudgetStore::open(&server.url()).unwrap();
        store.run_log(name).with_lease(LONG)
    }

    fn is_held(opened: &Result<OpenRun, RunLogError>, name: &str) -> bool {
        matches!(opened, Err(RunLogError::Held { by }) if by == name)
    }

    #[test]
    fn a_redis_is_a_log_of_runs() {
        let Some(server) = RedisServer::start() else { return };
        contract(&log(&server, "one"));
    }

    #[test]
    fn a_run_has_one_process_at_a_time_and_the_earlier_ones_write_nothing() {
        let Some(server) = RedisServer::start() else { return };
        let logs = ["one", "two", "three"].map(|name| log(&server, name));
        let shared = logs.each_ref().map(|log| log.shared().unwrap());
        let (id, program) = (RunId::new(), program());
        let mut one = logs[0].open(&id, &program).unwrap();
        add_step(&mut one, &id);
        assert_eq!(shared[0].wanted().unwrap(), []);
        assert_eq!(shared[1].served_by(&id).unwrap().as_deref(), Some("one"));
        assert_eq!(shared[0].served_by(&id).unwrap(), None);
        // Those that wait get it in their order.
        assert!(is_held(&logs[1].open(&id, &program), "one"));
        assert!(is_held(&logs[2].open(&id, &program), "one"));
        assert_eq!(shared[0].wanted().unwrap(), std::slice::from_ref(&id));
        assert_eq!(shared[0].wanted().unwrap(), []);
        one.lines.rest().unwrap();
        assert!(logs[2].open(&id, &program).is_err());
        let begun = Instant::now();
        let mut two = logs[1].open(&id, &program).unwrap();
        assert_eq!((steps(&two), two.lines.epoch()), (1, 2));
        // The first one knows an earlier epoch.
        let refused = one.lines.append(step(&two, &id).as_bytes());
        assert!(matches!(refused, Err(AppendError::Moved)), "{refused:?}");
        assert!(matches!(one.lines.hold(), Err(RunLogError::Moved)));
        assert!(matches!(one.lines.rest(), Err(RunLogError::Moved)));
        let runs = [(id.clone(), one.lines.epoch())];
        assert_eq!(shared[0].renew(&runs).unwrap(), std::slice::from_ref(&id));
        assert_eq!(shared[1].renew(&[(id.clone(), two.lines.epoch())]).unwrap(), []);
        // While another waits, a process does not take a run that rested again.
        add_step(&mut two, &id);
        assert!(is_held(&logs[2].open(&id, &program), "two"));
        two.lines.rest().unwrap();
        let held = two.lines.hold();
        // One that has stopped to ask is not waited for.
        assert!(held.is_err() || begun.elapsed() > Duration::from_secs(1));
        let three = (0..200).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            logs[2].open(&id, &program).ok()
        });
        if held.is_err() {
            assert_eq!(steps(&three.unwrap()), 2);
        }
        assert_eq!(logs[0].ids(9).unwrap(), [id]);
    }

    #[test]
    fn a_lease_that_is_over_gives_the_run_to_the_next_and_the_time_counts() {
        let Some(server) = RedisServer::start() else { return };
        let (id, program) = (RunId::new(), program());
        let died = log(&server, "died").with_lease(Duration::from_millis(30));
        let mut before = died.open(&id, &program).unwrap();
        add_step(&mut before, &id);
        thread::sleep(Duration::from_millis(40));
        let next = log(&server, "next").open(&id, &program).unwrap();
        assert_eq!(steps(&next), 1);
        let lines = step(&next, &id);
        assert!(matches!(before.lines.append(lines.as_bytes()), Err(AppendError::Moved)));
        let handle =
            RunHandle::replayed(info(&id), next.replayed.unwrap(), RunEnvironment::default());
        handle.signal("later");
        assert!(handle.look(|run| run.at()) >= Millis(40));
    }

    #[test]
    fn lines_that_were_changed_or_removed_are_refused() {
        let Some(server) = RedisServer::start() else { return };
        let (log, program) = (log(&server, "one"), program());
        let stored = || {
            let id = RunId::new();
            let mut open = log.open(&id, &program).unwrap();
            add_step(&mut open, &id);
            open.lines.rest().unwrap();
            (id, open.lines)
        };
        let spoil = |id: &RunId, command: &str| {
            let answer =
                server.send(&[&command.replace("LOG", &format!("{{endstop:default}}:log:{id}"))]);
            assert!(!answer.starts_with('-'), "{answer}");
        };
        for (command, expected) in [
            ("LSET LOG 1 {}", "line 2 is damaged"),
            ("RPOP LOG", "lines at its end are missing: it has 2 of 3"),
            ("LPOP LOG", "line 1 is damaged"),
            ("DEL LOG", "lines at its end are missing: it has 0 of 3"),
            ("RPUSH LOG {}", "line 4 is damaged"),
        ] {
            let (id, _) = stored();
            spoil(&id, command);
            let error = log.open(&id, &program).unwrap_err();
            assert!(matches!(&error, RunLogError::Lines { .. }), "{error}");
            assert!(error.to_string().contains(expected), "{command}: {error}");
        }
        let (id, mut lines) = stored();
        spoil(&id, "RPOP LOG");
        let refused =
            lines.append(trace_line(&Event::new(Millis(1), EventKind::StepBegin)).as_bytes());
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{refused:?}");
    }

    #[test]
    fn a_run_with_lines_of_a_later_version_is_refused_by_that_name_and_left_as_it_is() {
        let Some(server) = RedisServer::start() else { return };
        let (later, earlier, program) = (log(&server, "later"), log(&server, "earlier"), program());
        for (version, line, expected) in [
            (1, r#"{"at":1,"event":"dream"}"#, "line 4 was written by a later version"),
            (1, r#"{"at":1,"event":"dream"}"#, "unknown variant `dream`)"),
            (2, r#"{"at":1,"event":"step_begin"}"#, "line 1 was written by a later version"),
            (2, r#"{"at":1,"event":"step_begin"}"#, "the trace has version 2"),
        ] {
            let id = RunId::new();
            let mut open = later.open(&id, &program).unwrap();
            let version = format!("\"endstop_trace\":{version}");
            let lines = step(&open, &id).replace("\"endstop_trace\":1", &version) + line;
            open.lines.append(lines.as_bytes()).unwrap();
            open.lines.rest().unwrap();
            let error = earlier.open(&id, &program).unwrap_err();
            let is_newer =
                matches!(&error, RunLogError::Lines { error: TraceFileError::Newer { .. } });
            assert!(is_newer, "{error}");
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("damaged"), "{text}");
            assert!(error.without_paths().contains("a later version"), "{error}");
            // A process of the later version can take it at once, with all its lines.
            assert_eq!(later.shared().unwrap().served_by(&id).unwrap(), None);
            let stored = server.send(&[&format!("LLEN {{endstop:default}}:log:{id}")]);
            assert!(stored.starts_with(":4\r\n"), "{stored}");
        }
    }

    #[test]
    fn lines_whose_answer_was_lost_are_there_once() {
        let Some(mut server) = RedisServer::start() else { return };
        let (id, log, program) = (RunId::new(), log(&server, "one"), program());
        let mut open = log.open(&id, &program).unwrap();
        add_step(&mut open, &id);
        let more = trace_line(&Event::new(Millis(1), EventKind::StepBegin));
        server.kill();
        let away = open.lines.append(more.as_bytes());
        assert!(matches!(away, Err(AppendError::Away(_))), "{away:?}");
        assert!(log.shared().unwrap().away().is_some());
        server.restart();
        let longer = more.clone() + &trace_line(&Event::new(Millis(2), EventKind::StepEnd));
        let begun = Instant::now();
        while open.lines.append(longer.as_bytes()).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(steps(&log.open(&id, &program).unwrap()), 2);
    }

    #[test]
    fn a_server_without_memory_refuses_lines_for_now() {
        let Some(server) = RedisServer::start() else { return };
        let (id, program) = (RunId::new(), program());
        let mut open = log(&server, "one").open(&id, &program).unwrap();
        let lines = step(&open, &id);
        server.send(&["CONFIG SET maxmemory 1"]);
        let away = open.lines.append(lines.as_bytes());
        assert!(matches!(away, Err(AppendError::Away(_))), "{away:?}");
        assert!(log(&server, "two").open(&RunId::new(), &program).is_err());
        server.send(&["CONFIG SET maxmemory 0"]);
        open.lines.append(lines.as_bytes()).unwrap();
    }

    #[test]
    fn a_run_that_comes_back_is_wanted_by_those_alone_who_ask_again() {
        let Some(server) = RedisServer::start() else { return };
        let (one, two) = (log(&server, "one"), log(&server, "two"));
        let (id, program) = (RunId::new(), program());
        let mut first = one.open(&id, &program).unwrap();
        add_step(&mut first, &id);
        assert!(is_held(&two.open(&id, &program), "one"));
        first.lines.rest().unwrap();
        two.open(&id, &program).unwrap().lines.rest().unwrap();
        let again = one.open(&id, &program).unwrap();
        assert_eq!(one.shared().unwrap().wanted().unwrap(), []);
        assert!(is_held(&two.open(&id, &program), "one"));
        assert_eq!(one.shared().unwrap().wanted().unwrap(), std::slice::from_ref(&id));
        // A server that lost its last moments may have begun the same epoch for another process.
        server.send(&[&format!("HSET {{endstop:default}}:run:{id} owner other")]);
        let mut again = again;
        let refused = again.lines.append(step(&again, &id).as_bytes());
        assert!(matches!(refused, Err(AppendError::Moved)), "{refused:?}");
    }

    #[test]
    fn lines_are_deleted_some_time_after_the_last_one() {
        let Some(server) = RedisServer::start() else { return };
        let (id, program) = (RunId::new(), program());
        let log = log(&server, "one").with_retention(Duration::from_millis(50));
        let mut open = log.open(&id, &program).unwrap();
        add_step(&mut open, &id);
        thread::sleep(Duration::from_millis(60));
        assert!(!log.has(&id).unwrap());
        assert_eq!(log.ids(9).unwrap(), []);
        // It begins again.
        assert_eq!(steps(&log.open(&id, &program).unwrap()), 0);
    }
}
