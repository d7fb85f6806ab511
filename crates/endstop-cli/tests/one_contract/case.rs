//! A policy and a scripted run, as text where a test fails.

use std::fmt;
use std::sync::Arc;

use endstop::core::Program;
use endstop::core::policy::Policy;
use endstop::core::probe::Probes;
use serde_json::{Map, Value, json};

/// The results of tools. Two are short, and one has more than twelve words.
pub(crate) const RESULTS: [&str; 3] = [
    "ok",
    "nothing found",
    "error 7: no file or directory of that name is in this place, dear sir",
];

/// A tool call. Its arguments decide its result, so that every driver's tools give the same.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) result: usize,
    pub(crate) fails: bool,
}

impl Call {
    pub(crate) fn arguments(&self) -> Value {
        json!({ "fails": self.fails, "result": self.result })
    }
}

/// The result of a call with these arguments, and whether it failed.
pub(crate) fn result_of(arguments: &Map<String, Value>) -> (&'static str, bool) {
    let result = arguments["result"].as_u64().unwrap();
    (RESULTS[usize::try_from(result).unwrap()], arguments["fails"].as_bool().unwrap())
}

/// A model response. Without tool calls it ends the run.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Requests that fail before it.
    pub(crate) failures: usize,
    pub(crate) text: &'static str,
    pub(crate) calls: Vec<Call>,
    pub(crate) finish: &'static str,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
}

/// A policy and a run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) policy: String,
    pub(crate) turns: Vec<Turn>,
    /// Whether the client of the gateway asks for streams. The agent loop always does.
    pub(crate) is_streaming: bool,
}

impl Case {
    /// The same run under a policy that stops nothing.
    pub(crate) fn without_rules(&self) -> Self {
        let policy = "unbounded = true\non_unpriced = \"ignore\"\n".to_owned();
        Self { policy, turns: self.turns.clone(), is_streaming: self.is_streaming }
    }

    pub(crate) fn policy(&self) -> Policy {
        Policy::from_toml(&self.policy).unwrap()
    }

    pub(crate) fn program(&self) -> Arc<Program> {
        Arc::new(Program::new(&self.policy(), &Probes::new()).unwrap())
    }

    /// The model response to each request; `None` is a failed request.
    pub(crate) fn answers(&self) -> Vec<Option<Turn>> {
        let each = |turn: &Turn| {
            let failed = std::iter::repeat_with(|| None).take(turn.failures);
            failed.chain([Some(turn.clone())]).collect::<Vec<_>>()
        };
        self.turns.iter().flat_map(each).collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let streams = if self.is_streaming { "streams" } else { "whole responses" };
        writeln!(f, "policy:\n{}run, by {streams}:", self.policy)?;
        for (turn, number) in self.turns.iter().zip(1..) {
            let Turn { failures, text, finish, input, output, cached, .. } = turn;
            writeln!(
                f,
                "  {number}. {failures} failures, {text:?}, {finish}, {input} ({cached} cached) + {output} tokens"
            )?;
            for Call { tool, result, fails } in &turn.calls {
                writeln!(
                    f,
                    "     {tool} -> {:?}{}",
                    RESULTS[*result],
                    if *fails { " (failed)" } else { "" }
                )?;
            }
        }
        Ok(())
    }
}
