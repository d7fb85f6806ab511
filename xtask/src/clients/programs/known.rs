//! The programs that are run, and those that this task cannot install.

use super::{Program, Way};

/// Of programs written in Python.
const VENV: &str = "bin";
const BIN: &str = "node_modules/.bin";

/// The fields that most programs share.
const PROGRAM: Program = Program {
    name: "",
    group: "",
    package: "",
    directory: BIN,
    command: &[],
    way: Way::Variables,
    api: "chat",
    variables: &[],
    stops: 1,
    shows_reason: true,
    reads_lines: 0,
    calls_home: false,
    leaves_daemon: false,
    unadapted: None,
    is_in_ci: false,
};
/// The key that Codex' own provider reads from the environment, and no other.
const CODEX_KEY: &[(&str, &str)] = &[("CODEX_API_KEY", "endstop-sim")];
const CODEX: Program = Program {
    name: "codex",
    group: "codex",
    package: "@openai/codex",
    command: &["codex", "exec", "--skip-git-repo-check"],
    way: Way::Adapter,
    api: "responses",
    // It asks chatgpt.com for its plugins.
    calls_home: true,
    unadapted: Some(CODEX_KEY),
    is_in_ci: true,
    ..PROGRAM
};
const CLAUDE: Program = Program {
    name: "claude",
    group: "claude",
    package: "@anthropic-ai/claude-code",
    directory: "node_modules/@anthropic-ai/claude-code-PLATFORM",
    command: &["claude", "--print"],
    api: "messages",
    variables: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
    ..PROGRAM
};
const CODEX_INTERCEPTED: Program = Program {
    name: "codex --intercept",
    way: Way::Intercept,
    variables: CODEX_KEY,
    // The gateway answers chatgpt.com too.
    calls_home: false,
    unadapted: None,
    is_in_ci: false,
    ..CODEX
};
const CLAUDE_INTERCEPTED: Program =
    Program { name: "claude --intercept", way: Way::Intercept, ..CLAUDE };
const OPENCODE: Program = Program {
    name: "opencode",
    group: "opencode",
    package: "opencode-ai",
    directory: "node_modules/opencode-PLATFORM/bin",
    command: &["opencode", "run"],
    api: "messages",
    ..PROGRAM
};
const PI: Program = Program {
    name: "pi",
    group: "pi",
    package: "@mariozechner/pi-coding-agent",
    command: &["pi", "--print"],
    way: Way::Adapter,
    api: "messages",
    ..PROGRAM
};
const LLM: Program = Program {
    name: "llm",
    group: "llm",
    package: "llm",
    directory: VENV,
    command: &["llm", "-m", "gpt-4o", "--tool", "llm_version", "--chain-limit", "0"],
    ..PROGRAM
};
const LLM_GEMINI: Program = Program {
    name: "llm-gemini",
    group: "llm-gemini",
    package: "llm-gemini",
    command: &["llm", "-m", "gemini-2.5-flash", "--tool", "llm_version", "--chain-limit", "0"],
    way: Way::InterceptOnly,
    api: "gemini",
    variables: &[("LLM_GEMINI_KEY", "endstop-sim")],
    ..LLM
};

const AIDER: Program = Program {
    name: "aider",
    group: "aider",
    package: "aider-chat",
    directory: VENV,
    command: &[
        "aider",
        "--model",
        "gpt-4o",
        "--yes-always",
        "--no-git",
        "--no-pretty",
        "--no-fancy-input",
        "--no-show-model-warnings",
        "--no-check-update",
        "--analytics-disable",
    ],
    // It calls no tool and makes one call for each line.
    reads_lines: 4,
    ..PROGRAM
};

const GROK: Program = Program {
    name: "grok",
    group: "grok",
    package: "@vibe-kit/grok-cli",
    command: &["grok", "--prompt"],
    way: Way::Adapter,
    ..PROGRAM
};
const KIMI: Program = Program {
    name: "kimi",
    group: "kimi",
    package: "@moonshot-ai/kimi-code",
    command: &["kimi", "--prompt"],
    way: Way::Adapter,
    variables: &[("KIMI_DISABLE_TELEMETRY", "1"), ("KIMI_CODE_NO_AUTO_UPDATE", "1")],
    ..PROGRAM
};
const OPENHANDS: Program = Program {
    name: "openhands",
    group: "openhands",
    package: "openhands",
    directory: VENV,
    command: &["openhands", "--headless", "--override-with-envs", "--task"],
    variables: &[("LLM_MODEL", "openai/gpt-4o")],
    ..PROGRAM
};
const FAST_AGENT: Program = Program {
    name: "fast-agent",
    group: "fast-agent",
    package: "fast-agent-mcp",
    directory: VENV,
    command: &["fast-agent", "go", "--shell", "--model", "openai.gpt-4o", "--message"],
    ..PROGRAM
};
const DCODE: Program = Program {
    name: "dcode",
    group: "dcode",
    package: "deepagents-code",
    directory: VENV,
    command: &["dcode", "--no-mcp", "--model", "openai:gpt-4o", "--non-interactive"],
    ..PROGRAM
};
const INTERPRETER: Program = Program {
    name: "interpreter",
    group: "interpreter",
    package: "open-interpreter",
    directory: VENV,
    command: &[
        "interpreter",
        "--stdin",
        "--plain",
        "--auto_run",
        "--disable_telemetry",
        "--model",
        "gpt-4o",
    ],
    reads_lines: 1,
    ..PROGRAM
};

/// Every program that can be installed.
pub(in crate::clients) const PROGRAMS: &[Program] = &[
    CODEX,
    CODEX_INTERCEPTED,
    Program {
        name: "gemini",
        group: "gemini",
        package: "@google/gemini-cli",
        command: &["gemini", "--skip-trust", "--yolo", "--prompt"],
        way: Way::Adapter,
        api: "gemini",
        is_in_ci: true,
        ..PROGRAM
    },
    CLAUDE,
    CLAUDE_INTERCEPTED,
    OPENCODE,
    Program {
        name: "opencode (OpenAI)",
        command: &["opencode", "run", "--model", "openai/gpt-4o"],
        api: "responses",
        ..OPENCODE
    },
    Program {
        name: "opencode (Google)",
        command: &["opencode", "run", "--model", "google/gemini-2.5-pro"],
        way: Way::Adapter,
        api: "gemini",
        ..OPENCODE
    },
    Program {
        name: "qwen",
        group: "qwen",
        package: "@qwen-code/qwen-code",
        command: &["qwen", "--yolo"],
        way: Way::Adapter,
        ..PROGRAM
    },
    PI,
    Program {
        name: "pi (OpenAI)",
        command: &["pi", "--print", "--provider", "openai", "--model", "gpt-4o"],
        api: "responses",
        ..PI
    },
    Program {
        name: "cline",
        group: "cline",
        package: "cline",
        command: &["cline", "--json"],
        way: Way::Adapter,
        api: "messages",
        leaves_daemon: true,
        ..PROGRAM
    },
    Program {
        name: "copilot",
        group: "copilot",
        package: "@github/copilot",
        command: &["copilot", "--allow-all-tools", "--prompt"],
        way: Way::Adapter,
        ..PROGRAM
    },
    Program {
        name: "cn",
        group: "cn",
        package: "@continuedev/cli",
        command: &["cn", "--auto", "--print"],
        way: Way::Adapter,
        api: "messages",
        ..PROGRAM
    },
    LLM,
    Program {
        name: "llm --no-stream",
        command: &[
            "llm",
            "-m",
            "gpt-4o",
            "--no-stream",
            "--tool",
            "llm_version",
            "--chain-limit",
            "0",
        ],
        ..LLM
    },
    LLM_GEMINI,
    AIDER,
    GROK,
    KIMI,
    OPENHANDS,
    FAST_AGENT,
    DCODE,
    INTERPRETER,
    Program {
        name: "mini",
        group: "mini",
        package: "mini-swe-agent",
        directory: VENV,
        command: &["mini", "--yolo", "--exit-immediately", "-m", "openai/gpt-4o", "-t"],
        // It knows no price of the model that a stop response names.
        variables: &[("MSWEA_CONFIGURED", "true"), ("MSWEA_COST_TRACKING", "ignore_errors")],
        // It asks again where an answer has no command in it, three times.
        stops: 3,
        shows_reason: false,
        ..PROGRAM
    },
];

/// Programs that this task cannot install, and why.
pub(super) const NOT_HAD: &[(&str, &str)] = &[
    ("codebuff", "not run: its npm package downloads the program by a script"),
    ("crush", "not run: its npm package downloads the program by a script"),
    ("goose", "not run: it is not installed from npm or PyPI"),
    ("letta", "not run: one of its packages is missing from npm"),
    ("nanocoder", "not run: it asks on a terminal whether the directory is trusted"),
    ("ra-aid", "not run: it imports a module that its packages no longer have"),
];
