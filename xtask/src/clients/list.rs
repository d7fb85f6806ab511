//! The clients, and what each of them can do.

/// The directory of the programs.
pub(super) const DIRECTORY: &str = "tests/clients";

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    /// How it is called here.
    pub(super) name: &'static str,
    /// Its program in [`DIRECTORY`].
    pub(super) program: &'static str,
    /// The file of its packages in `requirements`, without its ending.
    pub(super) group: &'static str,
    /// The package whose version the table has.
    pub(super) package: &'static str,
    /// The interfaces that it speaks.
    pub(super) apis: &'static [&'static str],
    /// Requests that get the stop: one for each loop that it runs.
    pub(super) loops: u64,
    /// Whether it is run for each change.
    pub(super) is_in_ci: bool,
}

impl Client {
    /// Rows of the table: two for each interface, streaming and not.
    pub(super) const fn rows(&self) -> usize {
        self.apis.len().saturating_mul(2)
    }
}

const OPENAI: &[&str] = &["chat", "responses"];
const EVERY: &[&str] = &["chat", "responses", "messages"];
const MESSAGES: &[&str] = &["messages"];

/// Every client, the SDKs first.
pub(super) const CLIENTS: &[Client] = &[
    Client {
        name: "openai",
        program: "openai_sdk.py",
        group: "sdk",
        package: "openai",
        apis: OPENAI,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "anthropic",
        program: "anthropic_sdk.py",
        group: "sdk",
        package: "anthropic",
        apis: MESSAGES,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "anthropic-runner",
        program: "anthropic_runner.py",
        group: "sdk",
        package: "anthropic",
        apis: MESSAGES,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "nested",
        program: "nested_agents.py",
        group: "sdk",
        package: "openai",
        apis: &["chat"],
        loops: 2,
        is_in_ci: true,
    },
    Client {
        name: "openai-node",
        program: "openai_sdk.mjs",
        group: "node-sdk",
        package: "openai",
        apis: OPENAI,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "anthropic-node",
        program: "anthropic_sdk.mjs",
        group: "node-sdk",
        package: "@anthropic-ai/sdk",
        apis: MESSAGES,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "anthropic-runner-node",
        program: "anthropic_runner.mjs",
        group: "node-sdk",
        package: "@anthropic-ai/sdk",
        apis: MESSAGES,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "langgraph",
        program: "langgraph_react.py",
        group: "langchain",
        package: "langgraph",
        apis: EVERY,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "langchain",
        program: "langchain_agent.py",
        group: "langchain",
        package: "langchain",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "autogen",
        program: "autogen_agent.py",
        group: "autogen",
        package: "autogen-agentchat",
        apis: &["chat", "messages"],
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "smolagents",
        program: "smolagents_agent.py",
        group: "smolagents",
        package: "smolagents",
        apis: &["chat"],
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "openai-agents",
        program: "openai_agents.py",
        group: "openai-agents",
        package: "openai-agents",
        apis: OPENAI,
        loops: 1,
        is_in_ci: true,
    },
    Client {
        name: "pydantic-ai",
        program: "pydantic_ai_agent.py",
        group: "pydantic-ai",
        package: "pydantic-ai-slim",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "litellm",
        program: "litellm_loop.py",
        group: "litellm",
        package: "litellm",
        apis: &["chat", "messages"],
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "crewai",
        program: "crewai_crew.py",
        group: "crewai",
        package: "crewai",
        apis: &["chat", "messages"],
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "google-adk",
        program: "adk_agent.py",
        group: "adk",
        package: "google-adk",
        apis: &["chat", "gemini"],
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "vercel-ai",
        program: "vercel_ai.mjs",
        group: "vercel",
        package: "ai",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "agno",
        program: "agno_agent.py",
        group: "agno",
        package: "agno",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "haystack",
        program: "haystack_agent.py",
        group: "haystack",
        package: "haystack-ai",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "strands",
        program: "strands_agent.py",
        group: "strands",
        package: "strands-agents",
        apis: &["chat", "messages"],
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "llama-index",
        program: "llama_index_agent.py",
        group: "llama-index",
        package: "llama-index-core",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "agent-framework",
        program: "agent_framework_agent.py",
        group: "agent-framework",
        package: "agent-framework-core",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "semantic-kernel",
        program: "semantic_kernel_agent.py",
        group: "semantic-kernel",
        package: "semantic-kernel",
        apis: &["chat", "messages"],
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "mastra",
        program: "mastra_agent.mjs",
        group: "mastra",
        package: "@mastra/core",
        apis: EVERY,
        loops: 1,
        is_in_ci: false,
    },
    Client {
        name: "claude-code",
        program: "claude_agent.py",
        group: "claude",
        package: "claude-agent-sdk",
        apis: MESSAGES,
        loops: 1,
        is_in_ci: false,
    },
];
