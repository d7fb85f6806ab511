//! `endstop run` under a pseudo-terminal: keys, job control, and whose the terminal is.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests")]

use std::os::unix::process::ExitStatusExt as _;

use pty_process::blocking::Command;

#[path = "support/terminal.rs"]
mod terminal;

use terminal::Terminal;

/// `endstop run --quiet` with a script.
fn run(script: &str) -> Terminal {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    Terminal::begin(Command::new(endstop).args(["--quiet", "run", "--", "/bin/sh", "-c", script]))
}

#[test]
fn the_command_has_the_terminal_and_is_in_its_foreground() {
    // Only a process in the foreground reads what is typed.
    let mut terminal = run(
        "test -t 0 && test -t 1 && test -t 2 && echo all three; read line; echo \"<$line>\"; exit 7",
    );
    terminal.expect("all three");
    terminal.send("typed\r");
    terminal.expect("<typed>");
    assert_eq!(terminal.code(), Some(7));
}

/// Asks the proxy for a connection to a model provider.
const CONNECT: &str = "import base64, os, socket, urllib.parse\n\
    proxy = urllib.parse.urlparse(os.environ['HTTPS_PROXY'])\n\
    stream = socket.create_connection((proxy.hostname, proxy.port))\n\
    who = base64.b64encode(f'{proxy.username}:{proxy.password}'.encode())\n\
    stream.sendall(b'CONNECT api.openai.com:443 HTTP/1.1\\r\\nProxy-Authorization: Basic ' + who + b'\\r\\n\\r\\n')\n\
    stream.recv(999)\n";

#[test]
fn a_refused_connection_is_said_at_once_and_stands_on_the_status_line() {
    let script = format!("python3 -c \"{CONNECT}\"; exec sleep 600");
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let command = Command::new(endstop).args(["run", "--", "/bin/sh", "-c", &script]);
    let mut terminal = Terminal::begin(command.env_remove("ENDSTOP_RUN"));
    terminal.expect("refused a connection to api.openai.com (OpenAI)");
    terminal.expect("refused api.openai.com \u{b7} ");
    terminal.send("\u{3}");
    assert_eq!(terminal.status().signal(), Some(2));
}

#[test]
fn a_screen_that_the_command_draws_is_told_of_a_refused_connection_at_once() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    // It waits for a key, so the line is in the screen before it ends.
    let script = format!(
        "stty raw -echo; printf drawn; python3 -c \"{CONNECT}\"; read -r key; stty sane; printf over"
    );
    for quiet in [&["--quiet"][..], &[]] {
        let arguments = [quiet, &["run", "--", "/bin/sh", "-c", &script]].concat();
        let mut terminal = Terminal::begin(Command::new(endstop).args(arguments));
        terminal.expect("drawn");
        terminal.expect(
            "\r\n\u{1b}[0m\u{1b}[Kendstop: refused a connection to api.openai.com (OpenAI)",
        );
        terminal.send("\n");
        // The command may have drawn over it.
        terminal.expect("over");
        terminal.expect("endstop: refused a connection to api.openai.com (OpenAI)");
        assert_eq!(terminal.code(), Some(0), "{quiet:?}");
    }
}

#[test]
fn ctrl_c_goes_to_the_command_and_its_end_decides() {
    let mut terminal =
        run("trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done");
    terminal.expect("ready");
    terminal.send("\u{3}");
    terminal.expect("caught");
    assert_eq!(terminal.code(), Some(9));
}

#[test]
fn a_command_that_ctrl_c_ends_ends_endstop_in_the_same_way() {
    let mut terminal = run("echo ready; exec sleep 60");
    terminal.expect("ready");
    terminal.send("\u{3}");
    assert_eq!(terminal.status().signal(), Some(2));
}

#[test]
fn ctrl_c_ends_the_loop_of_the_shell_too() {
    let mut terminal = shell();
    terminal.send("for n in 1 2; do endstop -q run -- sh -c 'echo r\"\"un; exec sleep 60'; done\r");
    terminal.expect("run\r\n");
    terminal.send("\u{3}");
    terminal.expect("prompt> ");
    terminal.send("echo code=$?\r");
    terminal.expect("code=130");
    terminal.send("exit\r");
    terminal.code();
}

#[test]
fn ctrl_backslash_goes_to_the_command() {
    let mut terminal = run("ulimit -c 0; echo ready; exec sleep 60");
    terminal.expect("ready");
    terminal.send("\u{1c}");
    assert_eq!(terminal.status().signal(), Some(3));
}

#[test]
fn a_signal_to_endstop_is_handed_on() {
    let mut terminal =
        run("trap 'echo hung up; exit 5' HUP; echo ready; while :; do sleep 0.1; done");
    terminal.expect("ready");
    let status =
        std::process::Command::new("kill").args(["-HUP", &terminal.pid().to_string()]).status();
    assert!(status.unwrap().success());
    terminal.expect("hung up");
    assert_eq!(terminal.code(), Some(5));
}

/// A shell with job control, at its prompt.
fn shell() -> Terminal {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let directory = endstop.parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
    let shell = Command::new("bash").args(["--norc", "--noprofile", "-i"]).env("PATH", path);
    let terminal = Terminal::begin(shell.env("PS1", "prompt> "));
    terminal.expect("prompt> ");
    terminal
}

#[test]
fn ctrl_z_stops_the_job_and_fg_lets_it_go_on() {
    let mut terminal = shell();
    terminal.send("endstop -q run -- sh -c 'echo one; read line; echo \"<$line>\"; exit 3'\r");
    // The typed line is echoed, so the test waits for the answer with its end.
    terminal.expect("one\r\n");
    terminal.send("\u{1a}");
    terminal.expect("Stopped");
    terminal.expect("prompt> ");
    terminal.send("jobs\r");
    terminal.expect("Stopped");
    terminal.expect("prompt> ");
    terminal.send("fg\r");
    terminal.expect("exit 3'");
    terminal.send("again\r");
    terminal.expect("<again>");
    terminal.expect("prompt> ");
    terminal.send("echo code=$?\r");
    terminal.expect("code=3");
    terminal.send("exit\r");
    terminal.code();
}

#[test]
fn a_job_in_the_background_waits_when_it_reads_and_goes_on_in_the_foreground() {
    let mut terminal = shell();
    terminal.send("endstop -q run -- sh -c 'read line; echo \"<$line>\"' &\r");
    terminal.expect("prompt> ");
    // It wants to read, so it is stopped.
    terminal.send("while ! jobs | grep -q Stopped; do sleep 0.1; done; echo it is\" stopped\"\r");
    terminal.expect("it is stopped");
    terminal.expect("prompt> ");
    terminal.send("fg\r");
    terminal.expect("'read line");
    terminal.send("words\r");
    terminal.expect("<words>");
    terminal.expect("prompt> ");
    terminal.send("exit\r");
    terminal.code();
}

#[test]
fn what_reads_from_a_pipe_does_not_lose_the_terminal() {
    let mut terminal = shell();
    // The reader at the end of the pipeline asks at the terminal, as a pager does.
    terminal.send(
        "endstop -q run -- echo piped | sh -c 'cat; read line </dev/tty; echo \"<$line>\"'\r",
    );
    // The report that no call came can be before it.
    terminal.expect("piped\r\n");
    terminal.send("key\r");
    terminal.expect("<key>");
    terminal.expect("prompt> ");
    terminal.send("exit\r");
    terminal.code();
}

#[test]
fn a_command_that_is_killed_leaves_a_terminal_that_can_be_used() {
    let mut terminal = shell();
    terminal.send("endstop -q run -- sh -c 'echo one; kill -9 $$'; echo code=$?\r");
    terminal.expect("one\r\n");
    terminal.expect("code=137");
    terminal.expect("prompt> ");
    terminal.send("exit\r");
    terminal.code();
}

#[test]
fn the_status_line_has_a_row_of_its_own_and_gives_it_back() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let agent = format!(
        "\"{}\" demo-agent --iterations 2 --searches 2 --pause 400ms; echo; echo done",
        endstop.display()
    );
    let arguments = ["run", "--upstream", "sim", "--steps", "50", "--", "/bin/sh", "-c", &agent];
    let mut terminal = Terminal::begin(Command::new(endstop).args(arguments));
    // The region that scrolls ends above the last row, in which the line stands.
    terminal.expect("\u{1b}[1;23r");
    terminal.expect("\u{1b}[24;1H");
    terminal.expect("step ");
    terminal.expect("/50");
    terminal.expect("done");
    terminal.expect("\u{1b}[r");
    terminal.expect("endstop: exit code 0");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn the_status_line_of_a_dry_run_has_the_limits_and_says_when_they_are_passed() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let agent =
        format!("\"{}\" demo-agent --iterations 1 --searches 1; read go", endstop.display());
    let agent = format!("{agent}; {agent}");
    let arguments = ["run", "--dry-run", "--upstream", "sim", "--steps", "3"];
    let command = Command::new(endstop).args(arguments).args(["--", "/bin/sh", "-c", &agent]);
    let mut terminal = Terminal::begin(command);
    terminal.expect("dry run \u{b7} step 2/3");
    terminal.send("\r");
    terminal.expect("dry run, past steps_limit \u{b7} step ");
    terminal.send("\r");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_screen_that_the_command_draws_is_told_of_the_stop_before_the_signal_and_of_nothing_else() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("run_terminal-stop");
    drop(std::fs::remove_file(&file));
    // The run is stopped when the screen is drawn, and the command hears of it by a signal.
    let script = "trap 'heard=1; printf heard' TERM; stty raw -echo; printf 'drawn'; touch \"$0\"; \
                  until [ \"$heard\" ]; do sleep 0.1; done; sleep 1; stty sane; printf 'over'";
    let file = file.to_str().unwrap();
    let arguments = ["run", "--kill-file", file, "--", "/bin/sh", "-c", script, file];
    let mut terminal = Terminal::begin(Command::new(endstop).args(arguments));
    assert_eq!(terminal.code(), Some(124));
    let seen = terminal.seen();
    let (drawn, after) = seen.split_once("over").unwrap();
    let (told, _) = drawn.split_once("heard").unwrap();
    // From the beginning of a line, in plain letters, even if line feeds do not return.
    let screen = told.split_once("drawn").unwrap().1;
    let begin = "\r\n\u{1b}[0m\u{1b}[Kendstop: stopped: user_requested";
    assert!(screen.starts_with(begin), "{seen:?}");
    assert!(screen.contains("command is ended now\r\n"), "{seen:?}");
    assert!(!drawn.contains("SIGTERM"), "{seen:?}");
    // As many blanks as columns end the unfinished line.
    let line = format!("{}\rendstop: stopped: user_requested", " ".repeat(100));
    assert!(after.starts_with(&line), "{seen:?}");
}

#[test]
fn a_screen_is_told_again_when_the_grace_is_over() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let script = "trap 'heard=1; printf heard' TERM; stty raw -echo; printf 'drawn'; \
                  until [ \"$heard\" ]; do sleep 0.1; done; stty sane; printf 'over'";
    let arguments = ["run", "--timeout", "2s", "--grace", "1s", "--", "/bin/sh", "-c", script];
    let mut terminal = Terminal::begin(Command::new(endstop).args(arguments));
    assert_eq!(terminal.code(), Some(124));
    let seen = terminal.seen();
    let (told, _) = seen.split_once("heard").unwrap();
    let screen = told.split_once("drawn").unwrap().1;
    let (stop, end) = screen.split_once("command has 1s to end\r\n").unwrap();
    assert!(stop.contains("stopped: time_limit"), "{seen:?}");
    assert!(end.contains("the command has not exited, and Endstop ends it now\r\n"), "{seen:?}");
}

#[test]
fn the_status_line_follows_the_size_of_the_terminal() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let arguments =
        ["run", "--upstream", "sim", "--steps", "50", "--", "/bin/sh", "-c", "read end"];
    let mut terminal = Terminal::begin(Command::new(endstop).args(arguments));
    terminal.expect("\u{1b}[1;23r");
    terminal.expect("/50");
    terminal.resize(30, 100);
    // The old row is cleared, and the region ends above the new last row.
    terminal.expect("\u{1b}[24;1H\u{1b}[0m\u{1b}[K");
    terminal.expect("\u{1b}[1;29r");
    terminal.expect("\u{1b}[30;1H");
    // Terminals forget the region with the width as well, and no line is wider than the terminal.
    terminal.resize(30, 24);
    terminal.expect("\u{1b}[1;29r");
    terminal.expect("\u{1b}[30;1H\u{1b}[0m\u{1b}[K");
    terminal.expect("\u{1b}8");
    terminal.send("\r");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_final_answer_does_not_steer_the_terminal() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("run_terminal-answer");
    std::fs::create_dir_all(&directory).unwrap();
    let record = directory.join("record.jsonl");
    let text = "one\\n\\u001b]0;title\\u0007\\u009b2Jtwo\\u202e\\u2066three";
    let lines = [
        "{\"endstop_trace\":1,\"run\":\"r\"}",
        "{\"at\":0,\"event\":\"run_begin\"}",
        "{\"at\":0,\"event\":\"user_message\"}",
        "{\"at\":1,\"event\":\"step_begin\"}",
        "{\"at\":1,\"event\":\"attempt_begin\"}",
        &format!("{{\"at\":2,\"event\":\"piece\",\"text\":\"{text}\"}}"),
        "{\"at\":3,\"event\":\"reply\",\"finish\":\"stop\",\"usage\":{\"input\":1,\"output\":1}}",
        "{\"at\":3,\"event\":\"step_end\"}",
    ];
    std::fs::write(&record, lines.join("\n") + "\n").unwrap();
    let model = format!("replay:{}", record.display());
    let arguments = ["-q", "agent", "--no-store", "-m", &model, "--steps", "5", "go"];
    let mut terminal = Terminal::begin(Command::new(endstop).args(arguments));
    let code = terminal.code();
    let seen = terminal.seen();
    assert_eq!(code, Some(0), "{seen:?}");
    assert_eq!(seen, "one\r\n\\u{1b}]0;title\\u{7}\\u{9b}2Jtwo\\u{202e}\\u{2066}three\r\n");
    // A program that reads the answer gets it as it was.
    let output = std::process::Command::new(endstop).args(arguments).output().unwrap();
    assert!(output.stdout.starts_with(b"one\n"), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("two\u{202e}\u{2066}three"));
}

#[test]
fn a_run_inside_a_run_has_no_status_line() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    let mut command = Command::new(endstop).args(["run", "--", "sleep", "3"]);
    command = command.env("ENDSTOP_RUN", "outer");
    let mut terminal = Terminal::begin(command);
    assert_eq!(terminal.code(), Some(0));
    assert!(!terminal.seen().contains("\u{1b}[1;23r"), "{:?}", terminal.seen());
}

#[test]
fn a_command_that_reads_single_keys_gets_no_status_line() {
    let endstop = snapbox::cmd::cargo_bin!("endstop");
    // From the beginning, so that the start of the command makes no difference.
    let script =
        "stty -icanon -echo; \"$0\" run -- sleep 3; code=$?; stty sane; echo over; exit $code";
    let command = Command::new("/bin/sh").args(["-c", script, endstop.to_str().unwrap()]);
    let mut terminal = Terminal::begin(command);
    assert_eq!(terminal.code(), Some(0));
    let seen = terminal.seen();
    assert!(seen.contains("over") && !seen.contains("\u{1b}[1;23r"), "{seen:?}");
}
