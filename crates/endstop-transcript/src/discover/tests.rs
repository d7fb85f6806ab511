//! Discovery: what is found, grouped, and refused.

use std::fs;

use super::*;

const SESSION: &str = r#"{"type":"user","sessionId":"s1","timestamp":"2026-11-01T00:00:00Z","message":{"role":"user","content":"hi"}}"#;
const ROLLOUT: &str =
    r#"{"timestamp":"2026-11-01T00:00:00Z","type":"session_meta","payload":{"id":"c1"}}"#;

/// A new directory for a test, removed when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("endstop-discover-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shape(directory: &Directory, found: &Found) -> Vec<(String, &'static str, Vec<String>)> {
    let name = |part: &Part| {
        let path = part.path().unwrap().strip_prefix(&directory.0).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let transcripts = found.transcripts.iter();
    transcripts
        .map(|t| (name(&t.main), t.format.id(), t.children.iter().map(name).collect()))
        .collect()
}

#[test]
fn files_of_sub_agents_are_children_of_their_session() {
    let directory = Directory::new("children");
    directory.put("p/s1.jsonl", SESSION);
    directory.put("p/s1/subagents/agent-b.jsonl", SESSION);
    directory.put("p/s1/subagents/agent-acompact-a.jsonl", SESSION);
    directory.put("p/agent-old.jsonl", SESSION);
    directory.put("p/agent-lost.jsonl", &SESSION.replace("s1", "s9"));
    directory.put("p/README.md", "# no transcript");
    directory.put("p/outcomes.json", "{\"a\":{\"resolved\":true}}");
    let children = [
        "p/agent-old.jsonl",
        "p/s1/subagents/agent-acompact-a.jsonl",
        "p/s1/subagents/agent-b.jsonl",
    ];
    let children: Vec<String> = children.map(str::to_owned).into();
    let session = ("p/s1.jsonl".to_owned(), "claude-code", children);
    let lost = ("p/agent-lost.jsonl".to_owned(), "claude-code", vec![]);

    let found = walk(std::slice::from_ref(&directory.0)).unwrap();
    assert_eq!(shape(&directory, &found), [lost, session.clone()]);
    let unknown = [("unknown_format", "outcomes.json".to_owned(), 1)];
    assert_eq!(warned(&found.warnings), unknown);

    let named = walk(&[directory.0.join("p/s1.jsonl")]).unwrap();
    let (main, _, mut children) = shape(&directory, &named).remove(0);
    children.sort();
    assert_eq!((main, children), (session.0, session.2));

    let alone = walk(&[directory.0.join("p/s1/subagents/agent-b.jsonl")]).unwrap();
    assert_eq!(shape(&directory, &alone)[0].0, "p/s1/subagents/agent-b.jsonl");
}

/// Kinds, files without their directories, and counts.
fn warned(warnings: &[Warning]) -> Vec<(&'static str, String, u64)> {
    let name = |file: &str| file.rsplit(['/', '\\']).next().unwrap().to_owned();
    warnings.iter().map(|w| (w.kind.value(), name(&w.file), w.count)).collect()
}

#[test]
fn a_path_that_cannot_be_read_does_not_abort_the_others() {
    let directory = Directory::new("named");
    let unknown = directory.put("results.json", "{\"total\":3}");
    let absent = directory.0.join("absent.jsonl");
    let session = directory.put("s1.jsonl", SESSION);

    let found = walk(&[unknown.clone(), absent.clone(), session]).unwrap();
    assert_eq!(found.transcripts.len(), 1);
    let expected = [
        ("unknown_format", "results.json".to_owned(), 1),
        ("unreadable", "absent.jsonl".to_owned(), 1),
    ];
    assert_eq!(warned(&found.warnings), expected);

    let error = walk(&[unknown, absent]).unwrap_err();
    assert_eq!(warned(&error.warnings), expected);
    let text = error.to_string();
    assert!(text.contains("results.json: not read, of no known format; "), "{text}");
    assert!(text.contains("absent.jsonl: cannot be read: "), "{text}");
}

#[test]
fn unknown_files_of_a_directory_are_one_counted_warning_that_names_the_largest() {
    let directory = Directory::new("unknown");
    directory.put("s1.jsonl", SESSION);
    for number in 0..20 {
        directory.put(&format!("notes/{number}.json"), "{\"a\":1}");
    }
    directory.put("costly/session.db", &"SQLite format 3".repeat(100));
    directory.put("without-an-ending", "[ {\"prompt\":\"hi\"} ]");
    // Files that cannot be a transcript are not counted.
    for (name, text) in [
        ("main.rs", "fn main() {}"),
        ("README.md", "# [{ no JSON"),
        ("picture.png", "\u{89}PNG"),
        ("style.css", "{ }"),
        (".git/config.json", "{\"a\":1}"),
        ("node_modules/x/package.json", "{\"a\":1}"),
        ("p/agent-1.meta.json", "{\"agentType\":\"x\"}"),
        ("runs/nightly.run/state", "{\"endstop_state\":1}"),
    ] {
        directory.put(name, text);
    }
    let found = walk(std::slice::from_ref(&directory.0)).unwrap();
    assert_eq!(warned(&found.warnings), [("unknown_format", "session.db".to_owned(), 22)]);
    let text = found.warnings[0].to_string();
    assert!(text.ends_with("session.db: not read, of no known format (and 21 other files)"));
}

/// The conversation of a task is read with the costs next to it, whichever of the two is named.
#[test]
fn a_part_that_is_named_brings_its_whole_along() {
    let directory = Directory::new("whole");
    let bill = r#"[{"ts":1793700000000,"type":"say","say":"task","text":"hi"}]"#;
    let talk = r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]"#;
    let bill = directory.put("tasks/1/ui_messages.json", bill);
    let talk = directory.put("tasks/1/api_conversation_history.json", talk);
    let expected = [(
        "tasks/1/ui_messages.json".to_owned(),
        "cline",
        vec!["tasks/1/api_conversation_history.json".to_owned()],
    )];
    for paths in [vec![directory.0.clone()], vec![bill.clone()], vec![talk.clone()]] {
        assert_eq!(shape(&directory, &walk(&paths).unwrap()), expected, "{paths:?}");
    }
    fs::remove_file(bill).unwrap();
    assert_eq!(walk(&[talk]).unwrap().transcripts[0].format.id(), "anthropic-messages");
}

#[test]
fn a_directory_without_a_transcript_says_so() {
    let directory = Directory::new("empty");
    directory.put("README.md", "nothing here");
    let error = walk(std::slice::from_ref(&directory.0)).unwrap_err();
    assert_eq!(error.warnings.len(), 1);
    assert_eq!(error.warnings[0].kind.value(), "no_runs");
    assert!(walk(&[]).unwrap_err().warnings.is_empty());
}

#[test]
fn an_active_rollout_wins_over_its_archived_copy() {
    let directory = Directory::new("archive");
    directory.put("sessions/2026/a.jsonl", ROLLOUT);
    directory.put("archived_sessions/2026/a.jsonl", ROLLOUT);
    directory.put("archived_sessions/2026/b.jsonl", ROLLOUT);
    let found = walk(std::slice::from_ref(&directory.0)).unwrap();
    let mains: Vec<String> = shape(&directory, &found).into_iter().map(|(main, ..)| main).collect();
    assert_eq!(mains, ["archived_sessions/2026/b.jsonl", "sessions/2026/a.jsonl"]);
}

#[test]
fn a_file_named_twice_is_read_once() {
    let directory = Directory::new("twice");
    let path = directory.put("s1.jsonl", SESSION);
    assert_eq!(walk(&[path.clone(), directory.0.clone(), path]).unwrap().transcripts.len(), 1);
}

#[cfg(unix)]
#[test]
fn links_in_a_circle_end() {
    let directory = Directory::new("circle");
    directory.put("a/s1.jsonl", SESSION);
    std::os::unix::fs::symlink(&directory.0, directory.0.join("a/up")).unwrap();
    assert_eq!(walk(std::slice::from_ref(&directory.0)).unwrap().transcripts.len(), 1);
}

#[test]
fn homes_follow_the_environment() {
    let with = |pairs: &[(&str, &str)]| {
        let pairs: BTreeMap<String, String> =
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let homes = homes_from(|name| pairs.get(name).map(OsString::from));
        homes.iter().map(|home| home.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let below_home = with(&[("HOME", "/h")]);
    for expected in [
        "/h/.claude/projects",
        "/h/.config/claude/projects",
        "/h/.codex/sessions",
        "/h/.codex/archived_sessions",
        "/h/.gemini/tmp",
        "/h/.qwen/projects",
        "/h/.config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
        "/h/.openhands/conversations",
        "/h/.copilot/session-state",
        "/h/.config/Code/User/workspaceStorage",
        "/h/.local/share/opencode/storage/session",
        #[cfg(feature = "sqlite")]
        "/h/.local/share/opencode/opencode.db",
        #[cfg(feature = "sqlite")]
        "/h/.config/Cursor/User/globalStorage/state.vscdb",
    ] {
        assert!(below_home.iter().any(|home| home == expected), "{expected}: {below_home:?}");
    }
    assert_eq!(
        with(&[("CLAUDE_CONFIG_DIR", "/a, /b,"), ("CODEX_HOME", "/c"), ("GEMINI_CLI_HOME", "/g")]),
        ["/a/projects", "/b/projects", "/c/sessions", "/c/archived_sessions", "/g/.gemini/tmp"]
    );
    assert!(with(&[]).is_empty());
}

/// Files of OpenCode's storage: two sessions, of which one is a sub-agent of the other, with a message and a part each.
fn opencode(directory: &Directory, session: &str, part: &str) {
    for (id, parent) in [("ses_1", ""), ("ses_2", "\"parentID\":\"ses_1\",")] {
        let info =
            format!("{{\"id\":\"{id}\",{parent}\"title\":\"a\",\"version\":\"1\",\"time\":{{}}}}");
        directory.put(&format!("{session}/{id}.json"), &info);
        let message = format!("{{\"id\":\"msg_{id}\",\"sessionID\":\"{id}\",\"role\":\"user\"}}");
        let holder = session.replace("session/info", "session").replace("session/p1", "");
        directory.put(&format!("{holder}/message/{id}/msg_{id}.json"), &message);
        let text = format!(
            "{{\"id\":\"prt_{id}\",\"messageID\":\"msg_{id}\",\"sessionID\":\"{id}\",\"type\":\"text\"}}"
        );
        let above = if part.is_empty() { String::new() } else { format!("{id}/") };
        directory.put(&format!("{holder}/part/{above}msg_{id}/prt_{id}.json"), &text);
    }
}

#[test]
fn what_opencode_stores_belongs_to_the_session_that_began_it() {
    for (name, session, part) in
        [("new", "storage/session/p1", ""), ("old", "storage/session/info", "by session")]
    {
        let directory = Directory::new(&format!("opencode-{name}"));
        opencode(&directory, session, part);
        let whole = walk(std::slice::from_ref(&directory.0)).unwrap();
        assert_eq!(whole.transcripts.len(), 1, "{name}: {:?}", shape(&directory, &whole));
        assert_eq!(whole.transcripts[0].children.len(), 5, "{name}");
        // The session's file alone brings all of it along.
        let named = walk(&[directory.0.join(session).join("ses_1.json")]).unwrap();
        let names = |found: &Found| {
            let mut names = shape(&directory, found).remove(0).2;
            names.sort();
            names
        };
        assert_eq!(names(&named), names(&whole), "{name}");
    }
}

#[test]
fn the_database_of_opencode_wins_over_the_storage_that_it_took_in() {
    let directory = Directory::new("opencode-db");
    opencode(&directory, "storage/session/p1", "");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/opencode-db/opencode.db");
    fs::copy(data, directory.0.join("opencode.db")).unwrap();
    let found = walk(std::slice::from_ref(&directory.0)).unwrap();
    let formats: Vec<&str> = found.transcripts.iter().map(|found| found.format.id()).collect();
    // Without the feature the database is not read, and the storage is.
    let expected = if cfg!(feature = "sqlite") { "opencode-db" } else { "opencode" };
    assert_eq!(formats, [expected]);
}

#[test]
fn a_directory_that_is_one_run_is_listed_once() {
    let files: Vec<PathBuf> = ["b", "a", "c"].map(|name| PathBuf::from("one").join(name)).into();
    let (mut listing, mut lists) = (Listing::default(), 0);
    let first = Some(files[1].clone());
    for (path, found) in [(&files[0], first.clone()), (&files[1], None), (&files[2], first)] {
        let beside = listing.first_beside(path, |_| {
            lists += 1;
            files.clone()
        });
        assert_eq!(beside, found);
    }
    assert_eq!(lists, 1);
    let elsewhere = listing.first_beside(Path::new("two/b"), |_| vec![PathBuf::from("two/b")]);
    assert_eq!(elsewhere, None);
}
