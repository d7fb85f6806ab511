"""The Anthropic SDK, with a loop as people write it."""

import harness


def run(api, stream):
    import anthropic

    client = anthropic.Anthropic()
    tool = {
        "name": "counter",
        "description": "Counts one step.",
        "input_schema": harness.counter_schema(),
    }
    request = {"model": harness.ANTHROPIC_MODEL, "max_tokens": 1024, "tools": [tool]}
    messages = [{"role": "user", "content": harness.PROMPT}]
    while True:
        if stream:
            with client.messages.stream(messages=messages, **request) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(messages=messages, **request)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content)
        messages.append({"role": "assistant", "content": message.content})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": harness.counter(**call.input),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


harness.main(run)
