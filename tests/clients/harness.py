"""What the Python clients have in common: their arguments, their tool, their last line."""

import argparse
import asyncio
import inspect
import json
import os

PROMPT = "Count for ever: call the tool `counter` again and again."
OPENAI_MODEL = "gpt-4o"
ANTHROPIC_MODEL = "claude-sonnet-4-6"
GEMINI_MODEL = "gemini-2.5-flash"
# Limits of the clients' own are set to this, so that none but the one under test ends a run.
NEVER = 100_000

tools_run = 0


def counter(step: int) -> str:
    """Counts one step.

    Args:
        step: The number of the step.
    """
    global tools_run
    tools_run += 1
    return f"counted step {step}"


def counter_schema():
    """The arguments of `counter`."""
    return {
        "type": "object",
        "properties": {"step": {"type": "integer", "description": "The number of the step."}},
        "required": ["step"],
        "additionalProperties": False,
    }


def point_at(base):
    """Sets what `endstop run` sets for its command, for runs without it."""
    os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = base + "/v1"
    os.environ["ANTHROPIC_BASE_URL"] = base
    os.environ["GOOGLE_GEMINI_BASE_URL"] = os.environ["GEMINI_API_BASE"] = base
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        os.environ.setdefault(key, "sk-test")


def main(run):
    """Runs a client and prints how it ended, as one line of JSON.

    `run(api, stream)` gives the final text; it may be a coroutine. What it needs is imported within it, for the
    addresses have to stand in the environment before.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", default="chat", choices=["chat", "responses", "messages", "gemini"])
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--base", help="an address to use instead of those in the environment")
    arguments = parser.parse_args()
    if arguments.base:
        point_at(arguments.base)
    # Nothing may leave the machine, and no telemetry may hold up the end.
    for name in (
        "OTEL_SDK_DISABLED",
        "CREWAI_DISABLE_TELEMETRY",
        "OPENAI_AGENTS_DISABLE_TRACING",
        "LITELLM_LOCAL_MODEL_COST_MAP",
    ):
        os.environ[name] = "true"
    result = {"ended": "returned", "error": None, "text": ""}
    try:
        text = run(arguments.api, arguments.stream)
        if inspect.iscoroutine(text):
            text = asyncio.run(text)
        result["text"] = str(text)
    except Exception as error:  # Whatever a client raises is a way to end.
        result.update(ended="raised", error=type(error).__name__, text=str(error)[:2000])
    result["tools_run"] = tools_run
    # A line of its own, whatever was printed before.
    print("\n" + json.dumps(result), flush=True)
    # Threads of a framework that wait for something must not keep the process.
    os._exit(0 if result["ended"] == "returned" else 1)
