"""What the HTTP clients have in common: a loop on chat completions, at OpenAI's own address."""

import json
import os

import harness

URL = "https://api.openai.com/v1/chat/completions"
FUNCTION = {"name": "counter", "parameters": harness.counter_schema()}


class Loop:
    """A conversation that goes on until an answer calls no tool."""

    def __init__(self, stream):
        self.stream = stream
        self.messages = [{"role": "user", "content": harness.PROMPT}]
        self.headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        self.text = None

    def body(self):
        """The next request."""
        return {
            "model": harness.OPENAI_MODEL,
            "messages": self.messages,
            "tools": [{"type": "function", "function": FUNCTION}],
            "stream": self.stream,
        }

    def take(self, answer):
        """Reads an answer and runs its tools. Without tools, its text is the result."""
        message = joined(answer) if self.stream else json.loads(answer)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        if not calls:
            self.text = message["content"]
        self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for call in calls:
            counted = harness.counter(**json.loads(call["function"]["arguments"]))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": counted})


def joined(events):
    """The message of a stream."""
    calls, content = {}, ""
    for line in events.splitlines():
        data = line.removeprefix("data: ")
        if data == line or data == "[DONE]":
            continue
        for choice in json.loads(data)["choices"]:
            content += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or []:
                empty = {"type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(part["index"], empty)
                call["id"] = part.get("id") or call["id"]
                for name in ("name", "arguments"):
                    call["function"][name] += part["function"].get(name) or ""
    return {"content": content, "tool_calls": list(calls.values())}
