//! Discovery: what is found, grouped, and refused.

use std::fs;

use super::*;

const SESSION: &str = r#"{"type":"user","sessionId":"s1","timestamp":"2026-11-01T00:00:00Z","message":{"role":"user","content":"hi"}}"#;
const ROLLOUT: &str =
    r#"{"timestamp":"2026-11-01T00:00:00Z","type":"session_meta","payload":{"id":"c1"}}"#;

/// A directory of its own for a test, removed when the test is over.
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
    assert!(found.warnings.is_empty());

    let named = walk(&[directory.0.join("p/s1.jsonl")]).unwrap();
    let (main, _, mut children) = shape(&directory, &named).remove(0);
    children.sort();
    assert_eq!((main, children), (session.0, session.2));

    let alone = walk(&[directory.0.join("p/s1/subagents/agent-b.jsonl")]).unwrap();
    assert_eq!(shape(&directory, &alone)[0].0, "p/s1/subagents/agent-b.jsonl");
}

#[test]
fn a_named_file_that_is_no_transcript_is_an_error_that_lists_the_formats() {
    let directory = Directory::new("named");
    let path = directory.put("results.json", "{\"total\":3}");
    let error = walk(&[path]).unwrap_err().to_string();
    assert!(error.contains("results.json") && error.contains("claude-code, codex"), "{error}");
    let error = walk(&[directory.0.join("absent")]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read `"), "{error}");
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
    assert_eq!(
        with(&[("HOME", "/h")]),
        [
            "/h/.claude/projects",
            "/h/.config/claude/projects",
            "/h/.codex/sessions",
            "/h/.codex/archived_sessions",
            "/h/.gemini/tmp"
        ]
    );
    assert_eq!(
        with(&[("CLAUDE_CONFIG_DIR", "/a, /b,"), ("CODEX_HOME", "/c"), ("GEMINI_CLI_HOME", "/g")]),
        ["/a/projects", "/b/projects", "/c/sessions", "/c/archived_sessions", "/g/.gemini/tmp"]
    );
    assert!(with(&[]).is_empty());
}
