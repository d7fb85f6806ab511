"""An agent on one SDK whose tool starts another program, an agent on another SDK. One limit holds for both."""

import json
import pathlib
import subprocess
import sys

import harness

INNER = pathlib.Path(__file__).with_name("anthropic_sdk.py")


def delegate(stream):
    """Runs the other agent; it finds its upstream in the environment, as this one does."""
    command = [sys.executable, str(INNER), "--api", "messages"] + ["--stream"] * stream
    output = subprocess.run(command, capture_output=True, text=True).stdout
    result = json.loads(output.strip().splitlines()[-1])
    harness.tools_run += result["tools_run"]
    return result["text"]


def run(api, stream):
    import openai

    client = openai.OpenAI()
    parameters = {
        "type": "object",
        "properties": {"task": {"type": "string"}},
        "required": ["task"],
    }
    function = {"name": "delegate", "parameters": parameters}
    tools = [{"type": "function", "function": function}]
    messages = [{"role": "user", "content": "Delegate for ever."}]
    while True:
        completion = client.chat.completions.create(
            model=harness.OPENAI_MODEL, messages=messages, tools=tools
        )
        message = completion.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = delegate(stream)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


harness.main(run)
