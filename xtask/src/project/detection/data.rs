//! The recorded runs and their outcomes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use endstop_transcript::{Transcript, walk};
use serde_json::Value;

/// Where the runs are looked for, from the root of the project.
pub(super) const DIRECTORY: &str = "../shared/traces";

/// Recorded runs of one kind.
#[derive(Debug)]
pub(super) struct Set {
    /// The directory.
    pub(super) name: &'static str,
    /// What the runs are.
    pub(super) what: &'static str,
    /// A file of outcomes beside the runs.
    outcomes: Option<&'static str>,
    /// Runs whose file is called so are demonstrations, which succeeded.
    demonstrations: Option<&'static str>,
    /// Whether it is large enough to be cut in halves.
    pub(super) is_split: bool,
}

/// The kinds, in the order of the table.
pub(super) const SETS: &[Set] = &[
    Set {
        name: "intercode",
        what: "InterCode, SQL, GPT-4",
        outcomes: None,
        demonstrations: None,
        is_split: true,
    },
    Set {
        name: "mini-swe-agent",
        what: "mini-SWE-agent on SWE-bench Verified",
        outcomes: Some("outcomes.json"),
        demonstrations: None,
        is_split: false,
    },
    Set {
        name: "swe-agent",
        what: "SWE-agent demonstrations",
        outcomes: None,
        demonstrations: Some("demonstrations"),
        is_split: false,
    },
    Set {
        name: "openai-chat",
        what: "tau-bench, airline",
        outcomes: None,
        demonstrations: None,
        is_split: false,
    },
    Set {
        name: "inspect_ai",
        what: "Inspect logs",
        outcomes: None,
        demonstrations: None,
        is_split: false,
    },
    Set { name: "tau2", what: "tau2", outcomes: None, demonstrations: None, is_split: false },
];

/// The runs of a set, found.
#[derive(Debug)]
pub(super) struct Labelled {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) transcripts: Vec<Transcript>,
    pub(super) outcomes: BTreeMap<String, bool>,
}

/// Every set, or none where one of them is absent.
pub(super) fn read(root: &Path) -> Result<Option<Vec<Labelled>>, String> {
    let directory = root.join(DIRECTORY);
    if SETS.iter().any(|set| !directory.join(set.name).is_dir()) {
        return Ok(None);
    }
    SETS.iter()
        .map(|set| labelled(set, &directory.join(set.name)))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn labelled(set: &Set, directory: &Path) -> Result<Labelled, String> {
    let transcripts = walk(&[directory.to_path_buf()]).map_err(|e| e.to_string())?.transcripts;
    let mut outcomes = match set.outcomes {
        Some(file) => from_file(&directory.join(file))?,
        None => BTreeMap::new(),
    };
    if let Some(word) = set.demonstrations {
        let stems = transcripts.iter().map(|transcript| transcript.main.stem());
        let shown = stems.filter(|stem| stem.contains(word));
        outcomes.extend(shown.map(|stem| (stem.to_owned(), true)));
    }
    Ok(Labelled { name: set.name, what: set.what, transcripts, outcomes })
}

fn from_file(path: &Path) -> Result<BTreeMap<String, bool>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let read: BTreeMap<String, Value> =
        serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let resolved =
        |(id, value): (String, Value)| Some((id, value.get("resolved").and_then(Value::as_bool)?));
    Ok(read.into_iter().filter_map(resolved).collect())
}
