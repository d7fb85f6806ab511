"""The OpenAI SDK, with a loop as people write it."""

import json

import harness


def chat(client, stream):
    function = {"name": "counter", "parameters": harness.counter_schema(), "strict": True}
    request = {"model": harness.OPENAI_MODEL, "tools": [{"type": "function", "function": function}]}
    messages = [{"role": "user", "content": harness.PROMPT}]
    while True:
        if stream:
            with client.chat.completions.stream(messages=messages, **request) as events:
                completion = events.until_done().get_final_completion()
        else:
            completion = client.chat.completions.create(messages=messages, **request)
        message = completion.choices[0].message
        if not message.tool_calls:
            return message.content
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
        messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in message.tool_calls:
            result = harness.counter(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def responses(client, stream):
    tool = {
        "type": "function",
        "name": "counter",
        "parameters": harness.counter_schema(),
        "strict": True,
    }
    request = {"model": harness.OPENAI_MODEL, "tools": [tool]}
    items = [{"role": "user", "content": harness.PROMPT}]
    while True:
        if stream:
            with client.responses.stream(input=items, **request) as events:
                response = events.until_done().get_final_response()
        else:
            response = client.responses.create(input=items, **request)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        for call in calls:
            items.append(
                {
                    "type": "function_call",
                    "call_id": call.call_id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
            )
            result = harness.counter(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


def run(api, stream):
    import openai

    loop = {"chat": chat, "responses": responses}[api]
    return loop(openai.OpenAI(), stream)


harness.main(run)
