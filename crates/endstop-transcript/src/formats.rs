//! The formats: what each is called, where its tool keeps files, what it tells, and its reader.
//!
//! A reader is records and a mapping, of at most 250 lines of code with all its files; what readers share is in
//! [`RunBuilder`](super::builder::RunBuilder), [`Reading`] and `Step`. A longer one gives the reason in its first lines.

use std::fmt;
use std::path::{Path, PathBuf};

use super::head::Head;
use super::part::Part;
use super::reading::Reading;
use super::supplies::Supplies;
use super::warning::Warnings;
use super::{
    RunSink, Source, aider, anthropic, atif, autogen, claude_code, cline, codex, copilot_cli,
    endstop_trace, gemini_cli, inspect_ai, intercode, litellm, mast_ag2, mini_swe_agent,
    openai_chat, opencode, openhands, openhands_calls, openhands_events, otlp, pi, qwen_code,
    swe_agent, tau2, vscode_chat,
};

/// Every format that is read. The first that recognizes a file reads it.
pub static FORMATS: &[Format] = &[
    Format {
        supplies: Supplies { interventions: true, ..Supplies::EVERY_CALL },
        kept: "wherever the run's trace was written",
        // The states of a store of runs.
        beside: &["/state"],
        pieces: Some(endstop_trace::pieces_of),
        ..Format::new(
            "endstop",
            "Endstop's own traces, JSON lines that begin with `{\"endstop_trace\":1,`",
            endstop_trace::detect,
            endstop_trace::read,
        )
    },
    Format {
        supplies: Supplies {
            tool_failures: true,
            retries: true,
            subagents: true,
            ..Supplies::USAGE_AND_TIME
        },
        homes: &[Home { variable: "", otherwise: &[".qwen"], below: &["projects"] }],
        parent: Some(qwen_code::parent),
        companions: Some(qwen_code::companions),
        attended: true,
        ..Format::new(
            "qwen-code",
            "Qwen Code sessions, `~/.qwen/projects/<directory>/chats/<session>.jsonl`",
            qwen_code::detect,
            qwen_code::read,
        )
    },
    Format {
        supplies: Supplies::EVERY_CALL,
        homes: &[Home {
            variable: "CLAUDE_CONFIG_DIR",
            otherwise: &[".claude", ".config/claude"],
            below: &["projects"],
        }],
        parent: Some(claude_code::parent),
        companions: Some(claude_code::companions),
        beside: &[".meta.json", "sessions-index.json"],
        attended: true,
        ..Format::new(
            "claude-code",
            "Claude Code sessions, `~/.claude/projects/<directory>/<session>.jsonl`",
            claude_code::detect,
            claude_code::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, ..Supplies::USAGE_AND_TIME },
        homes: &[Home {
            variable: "CODEX_HOME",
            otherwise: &[".codex"],
            below: &[codex::ACTIVE, codex::ARCHIVE],
        }],
        shadowed_by: Some(codex::shadowed_by),
        attended: true,
        ..Format::new(
            "codex",
            "Codex rollouts, `~/.codex/sessions/<year>/<month>/<day>/rollout-*.jsonl`",
            codex::detect,
            codex::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, subagents: true, ..Supplies::USAGE_AND_TIME },
        homes: &[Home { variable: "GEMINI_CLI_HOME", otherwise: &[""], below: &[".gemini/tmp"] }],
        parent: Some(gemini_cli::parent),
        companions: Some(gemini_cli::companions),
        shadowed_by: Some(gemini_cli::shadowed_by),
        beside: &["logs.json"],
        attended: true,
        ..Format::new(
            "gemini-cli",
            "Gemini CLI sessions, `~/.gemini/tmp/<project>/chats/session-*.json` and `.jsonl`",
            gemini_cli::detect,
            gemini_cli::read,
        )
    },
    Format {
        supplies: Supplies { retries: true, ..Supplies::USAGE_AND_TIME },
        homes: &[
            Home {
                variable: "",
                otherwise: &[
                    ".config/Code/User/globalStorage",
                    "Library/Application Support/Code/User/globalStorage",
                ],
                below: &[
                    "saoudrizwan.claude-dev/tasks",
                    "rooveterinaryinc.roo-cline/tasks",
                    "kilocode.kilo-code/tasks",
                ],
            },
            Home { variable: "", otherwise: &[".cline/data"], below: &["tasks"] },
        ],
        companions: Some(cline::companions),
        beside: &["task_metadata.json", "context_history.json", "history_item.json"],
        attended: true,
        ..Format::new(
            "cline",
            "tasks of Cline, Roo Code and Kilo Code, `tasks/<task>/ui_messages.json` and the conversation next to it",
            cline::detect,
            cline::read,
        )
    },
    Format {
        supplies: Supplies {
            tool_failures: true,
            retries: true,
            finish: true,
            ..Supplies::USAGE_AND_TIME
        },
        homes: &[
            Home { variable: "", otherwise: &[".pi/agent"], below: &["sessions"] },
            Home { variable: "", otherwise: &[".openclaw"], below: &["agents"] },
        ],
        attended: true,
        ..Format::new(
            "pi",
            "sessions of the coding agent pi and of OpenClaw, `~/.pi/agent/sessions/<directory>/<time>_<id>.jsonl`",
            pi::detect,
            pi::read,
        )
    },
    Format {
        supplies: Supplies::EVERY_CALL,
        homes: &[Home {
            variable: "XDG_DATA_HOME",
            otherwise: &[".local/share"],
            below: &[
                "opencode/storage/session",
                "opencode/storage/message",
                "opencode/storage/part",
            ],
        }],
        parent: Some(opencode::parent),
        companions: Some(opencode::companions),
        shadowed_by: Some(opencode::shadowed_by),
        joins: true,
        attended: true,
        ..Format::new(
            "opencode",
            "OpenCode sessions, `storage/session/<project>/<session>.json` with messages and parts, and `opencode export`; the storage was not tried on real files",
            opencode::detect,
            opencode::read,
        )
    },
    Format {
        supplies: Supplies { time: true, tool_failures: true, subagents: true, ..Supplies::NONE },
        homes: &[Home {
            variable: "COPILOT_HOME",
            otherwise: &[".copilot"],
            below: &["session-state"],
        }],
        attended: true,
        ..Format::new(
            "copilot-cli",
            "GitHub Copilot CLI sessions, `~/.copilot/session-state/<session>/events.jsonl`; tokens only as sums of a session",
            copilot_cli::detect,
            copilot_cli::read,
        )
    },
    Format {
        supplies: Supplies { time: true, ..Supplies::NONE },
        homes: &[Home {
            variable: "",
            otherwise: &[
                ".config/Code/User",
                ".config/Code - Insiders/User",
                ".vscode-server/data/User",
                "Library/Application Support/Code/User",
                "Library/Application Support/Code - Insiders/User",
                "AppData/Roaming/Code/User",
                "AppData/Roaming/Code - Insiders/User",
            ],
            below: &["workspaceStorage", "globalStorage/emptyWindowChatSessions"],
        }],
        beside: &["workspace.json", "state.vscdb"],
        attended: true,
        ..Format::new(
            "vscode-chat",
            "chats of VS Code with Copilot, `chatSessions/<session>.json` and `.jsonl`, and exported ones",
            vscode_chat::detect,
            vscode_chat::read,
        )
    },
    Format {
        supplies: Supplies { tokens: true, money: true, retries: true, ..Supplies::NONE },
        kept: "`.aider.chat.history.md` of the repository",
        attended: true,
        ..Format::new(
            "aider",
            "chat histories of aider, `.aider.chat.history.md`, with rounded tokens and dollars",
            aider::detect,
            aider::read,
        )
    },
    #[cfg(feature = "sqlite")]
    Format {
        supplies: Supplies::EVERY_CALL,
        homes: &[Home {
            variable: "XDG_DATA_HOME",
            otherwise: &[".local/share"],
            below: &["opencode/opencode.db"],
        }],
        attended: true,
        ..Format::new(
            "opencode-db",
            "the database of OpenCode, `~/.local/share/opencode/opencode.db`, one run for each session",
            super::opencode_db::detect,
            super::opencode_db::read,
        )
    },
    #[cfg(feature = "sqlite")]
    Format {
        supplies: Supplies { time: true, tool_failures: true, ..Supplies::NONE },
        homes: &[Home {
            variable: "",
            otherwise: &[
                ".config/Cursor/User",
                "Library/Application Support/Cursor/User",
                "AppData/Roaming/Cursor/User",
            ],
            below: &["globalStorage/state.vscdb"],
        }],
        attended: true,
        ..Format::new(
            "cursor",
            "the database of Cursor, `globalStorage/state.vscdb`, one run for each conversation",
            super::cursor::detect,
            super::cursor::read,
        )
    },
    Format {
        supplies: Supplies::EVERY_CALL,
        kept: "`logs/` of the project, or `$INSPECT_LOG_DIR`",
        ..Format::new(
            "inspect-ai",
            "logs of Inspect evaluations, `logs/*.eval` and `.json`, one run for each sample and epoch",
            inspect_ai::detect,
            inspect_ai::read,
        )
    },
    Format::new(
        "mast-ag2",
        "lists of MAST records of AG2 chats, {\"trace_id\", \"mas_name\", \"trace\"}",
        mast_ag2::detect,
        mast_ag2::read,
    ),
    Format {
        supplies: Supplies { tokens: true, time: true, tool_failures: true, ..Supplies::NONE },
        ..Format::new(
            "autogen",
            "results of AutoGen AgentChat, {\"messages\": [...], \"stop_reason\": ...}",
            autogen::detect,
            autogen::read,
        )
    },
    Format {
        supplies: Supplies::EVERY_CALL,
        kept: "where the collector's file exporter writes",
        ..Format::new(
            "otlp",
            "OpenTelemetry spans with GenAI attributes, OTLP/JSON documents or lines",
            otlp::detect,
            otlp::read,
        )
    },
    Format {
        supplies: Supplies { retries: true, ..Supplies::USAGE_AND_TIME },
        kept: "the proxy's database; export it from `/spend/logs`",
        ..Format::new(
            "litellm",
            "LiteLLM spend logs: rows as a list, as {\"data\": [...]}, or one on each line",
            litellm::detect,
            litellm::read,
        )
    },
    Format {
        supplies: Supplies { subagents: true, ..Supplies::USAGE_AND_TIME },
        kept: "`jobs/<job>/<trial>/agent/trajectory.json`",
        ..Format::new(
            "atif",
            "ATIF trajectories (Harbor), `trajectory.json`",
            atif::detect,
            atif::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, finish: true, ..Supplies::USAGE_AND_TIME },
        kept: "the file or directory of `--output`",
        ..Format::new(
            "mini-swe-agent",
            "mini-SWE-agent trajectories, `<instance>.traj.json`",
            mini_swe_agent::detect,
            mini_swe_agent::read,
        )
    },
    Format {
        kept: "`trajectories/` of the checkout, by user and run",
        ..Format::new(
            "swe-agent",
            "SWE-agent trajectories, `<instance>.traj`",
            swe_agent::detect,
            swe_agent::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, ..Supplies::NONE },
        kept: "`data/results/` of the checkout",
        ..Format::new(
            "intercode",
            "InterCode results, {\"0\": {\"turn_history\": ...}, ...}",
            intercode::detect,
            intercode::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, finish: true, ..Supplies::USAGE_AND_TIME },
        kept: "`data/simulations/` of the checkout",
        parent: Some(tau2::parent),
        companions: Some(tau2::companions),
        joins: true,
        ..Format::new(
            "tau2",
            "tau2-bench results, `data/simulations/*.json`, or a directory with `results.json` and `simulations/`; not those of voice agents",
            tau2::detect,
            tau2::read,
        )
    },
    Format {
        supplies: Supplies { retries: true, finish: true, ..Supplies::USAGE_AND_TIME },
        kept: "the directory of `log_completions_folder`",
        companions: Some(openhands_calls::companions),
        is_directory: true,
        joins: true,
        ..Format::new(
            "openhands-calls",
            "model calls that the OpenHands SDK logs, a directory of `<model>-<time>.json` for a run",
            openhands_calls::detect,
            openhands_calls::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, ..Supplies::USAGE_AND_TIME },
        homes: &[Home { variable: "", otherwise: &[".openhands"], below: &["conversations"] }],
        parent: Some(openhands_events::parent),
        companions: Some(openhands_events::companions),
        joins: true,
        ..Format::new(
            "openhands-events",
            "conversations of the OpenHands SDK, `base_state.json` with `events/event-*.json`",
            openhands_events::detect,
            openhands_events::read,
        )
    },
    Format {
        supplies: Supplies { tool_failures: true, ..Supplies::NONE },
        parent: Some(cline::bill_beside),
        joins: true,
        ..Format::new(
            "anthropic-messages",
            "lists of Anthropic messages, bare, as {\"messages\": [...]}, or one a line",
            anthropic::detect_messages,
            anthropic::read,
        )
    },
    Format {
        supplies: Supplies {
            tokens: true,
            money: true,
            tool_failures: true,
            finish: true,
            ..Supplies::NONE
        },
        parent: Some(cline::bill_beside),
        joins: true,
        ..Format::new(
            "anthropic-responses",
            "lists of Anthropic messages with API responses, as JSON or one per line",
            anthropic::detect_responses,
            anthropic::read,
        )
    },
    Format {
        supplies: Supplies {
            tool_failures: true,
            finish: true,
            subagents: true,
            ..Supplies::USAGE_AND_TIME
        },
        kept: "`evaluation_outputs/` of an evaluation; exports where you save them",
        ..Format::new(
            "openhands",
            "OpenHands evaluations, `output.jsonl`, and exported trajectories",
            openhands::detect,
            openhands::read,
        )
    },
    Format {
        parent: Some(cline::bill_beside),
        joins: true,
        ..Format::new(
            "openai-chat",
            "lists of OpenAI chat messages, bare or as {\"messages\": [...]}, also one a line; tau-bench results",
            openai_chat::detect,
            openai_chat::read,
        )
    },
];

/// Returns the row of [`FORMATS`] with this name.
#[must_use]
pub fn format(id: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.id == id)
}

/// A kind of transcript: a row of [`FORMATS`].
///
/// See the example of [`Head`](crate::Head).
pub struct Format {
    id: &'static str,
    describe: &'static str,
    homes: &'static [Home],
    kept: &'static str,
    supplies: Supplies,
    detect: fn(&Head<'_>) -> bool,
    parent: Option<fn(&Path, &Head<'_>) -> Option<PathBuf>>,
    companions: Option<fn(&Path) -> Vec<PathBuf>>,
    shadowed_by: Option<fn(&Path) -> Option<PathBuf>>,
    beside: &'static [&'static str],
    is_directory: bool,
    joins: bool,
    attended: bool,
    pieces: Option<fn(&Part, u64) -> Vec<Part>>,
    read: Reader,
}

/// Streams all runs of a file into a sink.
type Reader = fn(Reading<'_>, &mut dyn RunSink);

impl Format {
    const fn new(
        id: &'static str,
        describe: &'static str,
        detect: fn(&Head<'_>) -> bool,
        read: Reader,
    ) -> Self {
        Self {
            id,
            describe,
            homes: &[],
            kept: "wherever your program writes it",
            supplies: Supplies::NONE,
            detect,
            parent: None,
            companions: None,
            shadowed_by: None,
            beside: &[],
            is_directory: false,
            joins: false,
            attended: false,
            pieces: None,
            read,
        }
    }

    /// Returns its stable name, such as `claude-code`.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        self.id
    }

    /// Returns a description of the format and of its place, in one line.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        self.describe
    }

    /// Returns the directories in which the tool keeps its transcripts on this machine.
    #[must_use]
    pub const fn homes(&self) -> &'static [Home] {
        self.homes
    }

    /// Returns where it is found if not in one of its homes, in a few words.
    #[must_use]
    pub const fn kept(&self) -> &'static str {
        self.kept
    }

    /// Returns the data that the format has.
    #[must_use]
    pub const fn supplies(&self) -> Supplies {
        self.supplies
    }

    /// Returns whether a file that begins like this is of this format. Content decides, never the name.
    #[must_use]
    pub fn detect(&self, head: &Head<'_>) -> bool {
        (self.detect)(head)
    }

    /// Returns the file whose run this file belongs to, if it is only a part of one.
    #[must_use]
    pub fn parent(&self, path: &Path, head: &Head<'_>) -> Option<PathBuf> {
        (self.parent?)(path, head)
    }

    /// Whether its files in one directory are one run: the first of its [`companions`](Self::companions) stands for them.
    pub(super) const fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Returns files and directories that may have further parts of this file's run.
    #[must_use]
    pub fn companions(&self, path: &Path) -> Vec<PathBuf> {
        self.companions.map(|companions| companions(path)).unwrap_or_default()
    }

    /// Returns the file that makes this one superfluous if both are found.
    #[must_use]
    pub fn shadowed_by(&self, path: &Path) -> Option<PathBuf> {
        (self.shadowed_by?)(path)
    }

    /// Returns the ends of names of files next to the transcripts that hold no run; with a slash, whole names.
    #[must_use]
    pub const fn beside(&self) -> &'static [&'static str] {
        self.beside
    }

    /// Returns whether a person works in such runs and their absence is not recorded: the time between an answer and
    /// the next user turn then counts as the run's, so `active` and `elapsed` are longer than the agent worked.
    #[must_use]
    pub const fn is_attended(&self) -> bool {
        self.attended
    }

    /// Whether a part of a run stands for the whole if only the part is named. Otherwise it is a separate run then,
    /// as a sub-agent is.
    pub(super) const fn joins(&self) -> bool {
        self.joins
    }

    /// Returns the file in pieces of about this many bytes or more, for several threads: read one after the other they
    /// give the runs of the whole, and warnings whose lines count from the piece's first. Empty if the file should be
    /// read in one go.
    #[must_use]
    pub fn pieces(&self, part: &Part, about: u64) -> Vec<Part> {
        self.pieces.map(|pieces| pieces(part, about)).unwrap_or_default()
    }

    /// Streams all runs of the source into `sink`.
    pub fn read(&'static self, source: &Source<'_>, sink: &mut dyn RunSink) {
        let warnings = Warnings::default();
        (self.read)(Reading::new((self.id, self.supplies), source, &warnings), sink);
        warnings.send(sink);
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// The place where a tool keeps its transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The environment variable that names the tool's directories, separated by commas.
    pub variable: &'static str,
    /// The directories below the user's home if the variable is not set.
    pub otherwise: &'static [&'static str],
    /// The directories in there that hold transcripts.
    pub below: &'static [&'static str],
}
