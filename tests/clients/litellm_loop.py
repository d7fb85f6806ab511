"""LiteLLM as a library, with a loop as people write it."""

import gc
import json
import os

import harness


def run(api, stream):
    import litellm

    if api == "messages":
        where = {
            "model": f"anthropic/{harness.ANTHROPIC_MODEL}",
            "api_base": os.environ["ANTHROPIC_BASE_URL"],
        }
    else:
        where = {
            "model": f"openai/{harness.OPENAI_MODEL}",
            "api_base": os.environ["OPENAI_BASE_URL"],
        }
    function = {"name": "counter", "parameters": harness.counter_schema()}
    tools = [{"type": "function", "function": function}]
    messages = [{"role": "user", "content": harness.PROMPT}]
    while True:
        answer = litellm.completion(
            messages=messages, tools=tools, stream=stream, max_tokens=1024, **where
        )
        if stream:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
            # It leaves its HTTP stream open. A collection at a bad moment would close that while httpcore holds the
            # lock that closing takes, and the client would wait for itself for ever.
            gc.collect()
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = harness.counter(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


harness.main(run)
