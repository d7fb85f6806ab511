//! The recorded runs and their outcomes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use endstop_transcript::{Transcript, walk};
use serde_json::Value;

/// Where the runs are looked for, from the root of the project.
pub(super) const DIRECTORY: &str = "../shared";

/// Recorded runs of one kind.
#[derive(Debug)]
pub(super) struct Set {
    /// The name in the tables.
    name: &'static str,
    /// A description of the runs.
    what: &'static str,
    /// The file or directory.
    path: &'static str,
    /// A file of outcomes next to the runs.
    outcomes: Option<&'static str>,
    /// Runs whose file is called so are demonstrations, which succeeded.
    demonstrations: Option<&'static str>,
    kind: Kind,
}

/// How the tables count a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Tasks of InterCode.
    Intercode,
    /// Other tasks with a known outcome.
    Tasks,
    /// Sessions of people, whose outcome is not known.
    Sessions,
}

const fn tasks(name: &'static str, what: &'static str, path: &'static str) -> Set {
    Set { name, what, path, outcomes: None, demonstrations: None, kind: Kind::Tasks }
}

const fn intercode(name: &'static str, what: &'static str, path: &'static str) -> Set {
    Set { kind: Kind::Intercode, ..tasks(name, what, path) }
}

/// The sets, in the order of the tables.
const SETS: &[Set] = &[
    intercode("sql gpt-4", "InterCode, SQL, GPT-4", "traces/intercode"),
    intercode(
        "sql react",
        "InterCode, SQL, ReAct with GPT-3.5",
        "recorded/intercode/ic_sql_react_10_turns.json",
    ),
    intercode(
        "sql davinci",
        "InterCode, SQL, text-davinci-003",
        "recorded/intercode/ic_sql_multiturn_text-davinci-003_10_turns.json",
    ),
    intercode(
        "bash vicuna",
        "InterCode, Bash, Vicuna",
        "recorded/intercode/ic_bash_multiturn_vicuna_10_turns_fs_3.json",
    ),
    Set {
        outcomes: Some("outcomes.json"),
        ..tasks("mini-swe-agent", "mini-SWE-agent on SWE-bench Verified", "traces/mini-swe-agent")
    },
    Set {
        demonstrations: Some("demonstrations"),
        ..tasks("swe-agent", "SWE-agent demonstrations", "traces/swe-agent")
    },
    tasks("tau-bench", "tau-bench, airline", "traces/openai-chat"),
    tasks("inspect", "Inspect logs", "traces/inspect_ai"),
    tasks("tau2", "tau2", "traces/tau2"),
    Set {
        kind: Kind::Sessions,
        ..tasks("sessions", "Claude Code sessions of one team", "recorded/claude-code")
    },
];

/// The runs of a set, found.
#[derive(Debug)]
pub(super) struct Labelled {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) kind: Kind,
    pub(super) transcripts: Vec<Transcript>,
    pub(super) outcomes: BTreeMap<String, bool>,
}

/// Every set, or none if one of them is absent.
pub(super) fn read(root: &Path) -> Result<Option<Vec<Labelled>>, String> {
    let directory = root.join(DIRECTORY);
    if SETS.iter().any(|set| !directory.join(set.path).exists()) {
        return Ok(None);
    }
    let sets = SETS.iter().map(|set| labelled(set, &directory.join(set.path)));
    sets.collect::<Result<_, _>>().map(Some)
}

fn labelled(set: &Set, path: &Path) -> Result<Labelled, String> {
    let transcripts = walk(&[path.to_path_buf()]).map_err(|e| e.to_string())?.transcripts;
    let mut outcomes = match set.outcomes {
        Some(file) => from_file(&path.join(file))?,
        None => BTreeMap::new(),
    };
    if let Some(word) = set.demonstrations {
        let stems = transcripts.iter().map(|transcript| transcript.main.stem());
        let shown = stems.filter(|stem| stem.contains(word));
        outcomes.extend(shown.map(|stem| (stem.to_owned(), true)));
    }
    let Set { name, what, kind, .. } = *set;
    Ok(Labelled { name, what, kind, transcripts, outcomes })
}

fn from_file(path: &Path) -> Result<BTreeMap<String, bool>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let read: BTreeMap<String, Value> =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let resolved =
        |(id, value): (String, Value)| Some((id, value.get("resolved").and_then(Value::as_bool)?));
    Ok(read.into_iter().filter_map(resolved).collect())
}
