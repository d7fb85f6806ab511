//! Kill switches: what counts as on, and the watch over one.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of this test fail as the test does"
)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use endstop_core::signal::{StopReason, StopSignal};
use endstop_runtime::cancel::{
    CancelToken, FileKillSwitch, KillSwitch, MIN_WATCH_INTERVAL, MemoryKillSwitch, NoKillSwitch,
    Urgency, watch_kill_switch,
};
use tokio::time::{Instant, advance, sleep};

/// An empty directory of one test.
fn directory(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cancel_kill").join(test);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    fs::create_dir_all(&path).unwrap();
    path
}

/// The message of a kill file with these bytes.
#[track_caller]
fn message_of(test: &str, bytes: &[u8]) -> String {
    let path = directory(test).join("kill");
    fs::write(&path, bytes).unwrap();
    FileKillSwitch::new(path).on().expect("a file exists")
}

#[test]
fn a_kill_file_throws_while_it_is_there() {
    let path = directory("there").join("kill");
    let switch = FileKillSwitch::new(&path);
    assert_eq!(switch.path(), path);
    assert_eq!(switch.on(), None);
    fs::write(&path, "costs too much\nsecond line").unwrap();
    assert_eq!(switch.on().as_deref(), Some("costs too much"));
    fs::remove_file(&path).unwrap();
    assert_eq!(switch.on(), None);
}

#[test]
fn a_kill_file_is_turned_on_and_reset_by_the_switch_itself() {
    let path = directory("itself").join("run").join("below").join("kill");
    let switch = FileKillSwitch::new(&path);
    switch.reset().expect("nothing to remove is not an error");
    switch.turn_on("one\ntwo").unwrap();
    assert_eq!(switch.on().as_deref(), Some("one two"));
    switch.turn_on("three").unwrap();
    assert_eq!(switch.on().as_deref(), Some("three"));
    switch.reset().unwrap();
    assert_eq!(switch.on(), None);
    assert!(!path.exists());
}

#[test]
fn a_kill_file_without_a_message_names_itself() {
    for (index, bytes) in [b"".as_slice(), b"\n\nlater", b" \t\r\n"].iter().enumerate() {
        let message = message_of(&format!("empty{index}"), bytes);
        assert!(
            message.starts_with("the file `") && message.ends_with("kill` exists"),
            "{message}"
        );
    }
}

#[test]
fn the_message_is_the_first_line_without_what_a_terminal_would_obey() {
    assert_eq!(message_of("crlf", b"stop\r\nmore"), "stop");
    assert_eq!(message_of("mark", "\u{feff}stop".as_bytes()), "stop");
    assert_eq!(message_of("escape", b"\x1b[31mstop\x07\n"), "[31mstop");
}

#[test]
fn a_kill_file_that_is_not_utf8_still_throws() {
    assert_eq!(message_of("latin1", b"zu sp\xe4t\n"), "zu sp\u{fffd}t");
    assert_eq!(message_of("bytes", &[0xff; 3]), "\u{fffd}\u{fffd}\u{fffd}");
}

#[test]
fn of_a_huge_kill_file_only_the_beginning_is_read() {
    let path = directory("huge").join("kill");
    let file = fs::File::create(&path).unwrap();
    // Sparse; to read it whole would take minutes.
    file.set_len(1 << 40).unwrap();
    let message = FileKillSwitch::new(&path).on().unwrap();
    assert!(message.starts_with("the file `"), "zero bytes are not a message: {message}");

    assert_eq!(message_of("long", &[b'a'; 100_000]), "a".repeat(1024));
    // 1,024 is not a multiple of three: the last character is cut and left out.
    assert_eq!(message_of("wide", "\u{20ac}".repeat(2_000).as_bytes()), "\u{20ac}".repeat(341));
}

#[test]
fn a_directory_in_the_place_of_the_kill_file_throws_and_is_not_removed() {
    let path = directory("directory").join("kill");
    fs::create_dir(&path).unwrap();
    let switch = FileKillSwitch::new(&path);
    let message = switch.on().unwrap();
    assert!(message.contains("counts as on: it is not a file"), "{message}");
    assert!(switch.reset().is_err());
    assert!(switch.on().is_some());
}

#[cfg(unix)]
mod on_unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    #[track_caller]
    fn check_unreadable(path: PathBuf) {
        let message = FileKillSwitch::new(&path).on().expect("it fails closed");
        let expected = format!("the kill switch `{}` cannot be read", path.display());
        assert!(message.starts_with(&expected), "{message}");
    }

    #[test]
    fn links_that_lead_nowhere_or_round_throw() {
        let directory = directory("links");
        symlink("nothing", directory.join("dangling")).unwrap();
        check_unreadable(directory.join("dangling"));
        symlink("round", directory.join("round")).unwrap();
        check_unreadable(directory.join("round"));
        check_unreadable(directory.join("round").join("kill"));
    }

    #[test]
    fn a_file_where_a_directory_should_be_throws() {
        let directory = directory("not_a_directory");
        fs::write(directory.join("file"), "").unwrap();
        check_unreadable(directory.join("file").join("kill"));
    }

    #[test]
    fn a_path_that_cannot_be_throws() {
        check_unreadable(PathBuf::from("a\0b"));
    }

    #[test]
    fn a_pipe_throws_and_nobody_waits_for_its_other_end() {
        let path = directory("pipe").join("kill");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        check_unreadable(path);
    }

    #[test]
    fn what_permissions_hide_throws() {
        let directory = directory("permissions");
        let path = directory.join("kill");
        fs::write(&path, "hidden").unwrap();
        let set = |path: &PathBuf, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&path, 0o000);
        if fs::read(&path).is_ok() {
            // To the superuser nothing is hidden, and then the message has to come out.
            assert_eq!(FileKillSwitch::new(&path).on().as_deref(), Some("hidden"));
            return;
        }
        check_unreadable(path.clone());
        set(&directory, 0o000);
        check_unreadable(path.clone());
        check_unreadable(directory.join("absent"));
        set(&directory, 0o755);
    }
}

#[test]
fn clones_of_a_memory_switch_are_one() {
    let switch = MemoryKillSwitch::new();
    let clone = switch.clone();
    assert_eq!(switch.on(), None);
    clone.turn_on("a");
    assert_eq!(switch.on().as_deref(), Some("a"));
    switch.turn_on("b");
    assert_eq!(clone.on().as_deref(), Some("b"));
    switch.reset();
    assert_eq!(clone.on(), None);
    assert_eq!(NoKillSwitch.on(), None);
}

const EVERY: Duration = Duration::from_millis(250);

#[tokio::test(start_paused = true)]
async fn a_watch_cuts_within_one_interval_and_says_why() {
    let (switch, token) = (MemoryKillSwitch::new(), CancelToken::new());
    let watch = tokio::spawn(watch_kill_switch(Arc::new(switch.clone()), token.clone(), EVERY));
    sleep(EVERY * 10 + Duration::from_millis(1)).await;
    assert!(!token.is_cancelled());

    let thrown_at = Instant::now();
    switch.turn_on("enough");
    token.aborted().await;
    assert!(thrown_at.elapsed() <= EVERY, "{:?}", thrown_at.elapsed());
    let signal = token.signal().unwrap();
    assert_eq!(signal.reason, StopReason::UserRequested);
    assert_eq!(signal.message, "enough");
    assert_eq!(signal.source.as_deref(), Some("kill switch"));
    watch.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_over_a_switch_that_is_on_already_cuts_at_once() {
    let path = directory("already").join("kill");
    let switch = FileKillSwitch::new(path);
    switch.turn_on("before").unwrap();
    let (token, began_at) = (CancelToken::new(), Instant::now());
    watch_kill_switch(Arc::new(switch), token.clone(), EVERY).await;
    assert_eq!(began_at.elapsed(), Duration::ZERO);
    assert_eq!(token.signal().unwrap().message, "before");
    assert_eq!(token.urgency(), Some(Urgency::Now));
}

#[tokio::test(start_paused = true)]
async fn a_watch_makes_a_graceful_stop_urgent_and_keeps_its_reason() {
    let (switch, token) = (MemoryKillSwitch::new(), CancelToken::new());
    token.cancel(StopSignal::new(StopReason::StepsLimitReached), Urgency::Graceful);
    switch.turn_on("enough");
    watch_kill_switch(Arc::new(switch), token.clone(), EVERY).await;
    assert_eq!(token.urgency(), Some(Urgency::Now));
    assert_eq!(token.signal().unwrap().reason, StopReason::StepsLimitReached);
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Asked(AtomicUsize);

impl KillSwitch for Asked {
    fn on(&self) -> Option<String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_the_token_is_cut_by_somebody_else() {
    let (asked, token) = (Arc::new(Asked::default()), CancelToken::new());
    let switch: Arc<dyn KillSwitch> = asked.clone();
    let watch = tokio::spawn(watch_kill_switch(switch, token.clone(), EVERY));
    sleep(EVERY * 3 + Duration::from_millis(1)).await;
    assert_eq!(asked.0.load(Ordering::SeqCst), 4);
    token.cancel(StopSignal::new(StopReason::StopRequested), Urgency::Graceful);
    sleep(EVERY).await;
    assert!(!watch.is_finished(), "calls in flight may still have to be aborted");
    token.cancel(StopSignal::new(StopReason::StopRequested), Urgency::Now);
    watch.await.unwrap();
    assert_eq!(asked.0.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_an_interval_does_not_take_the_core_for_itself() {
    let (asked, token) = (Arc::new(Asked::default()), CancelToken::new());
    let switch: Arc<dyn KillSwitch> = asked.clone();
    let watch = tokio::spawn(watch_kill_switch(switch, token.clone(), Duration::ZERO));
    tokio::task::yield_now().await;
    for _ in 0..10 {
        advance(MIN_WATCH_INTERVAL).await;
        tokio::task::yield_now().await;
    }
    let times = asked.0.load(Ordering::SeqCst);
    assert!((2..=11).contains(&times), "asked {times} times in 10 ms");
    token.cancel(StopSignal::new(StopReason::StopRequested), Urgency::Now);
    watch.await.unwrap();
}
