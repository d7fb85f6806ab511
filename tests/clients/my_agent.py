"""The agent `my_agent.py` of README: a loop on the OpenAI SDK that runs for ever and knows of no limit."""

import json

import openai

FUNCTION = {
    "name": "counter",
    "parameters": {
        "type": "object",
        "properties": {"step": {"type": "integer"}},
        "required": ["step"],
        "additionalProperties": False,
    },
}

client = openai.OpenAI()
messages = [{"role": "user", "content": "Count for ever: call the tool `counter` again and again."}]
while True:
    completion = client.chat.completions.create(
        model="gpt-4o", messages=messages, tools=[{"type": "function", "function": FUNCTION}]
    )
    message = completion.choices[0].message
    if not message.tool_calls:
        print(message.content)
        break
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        step = json.loads(call.function.arguments).get("step")
        # A page of text, as tools return it, so that a limit in dollars is reached soon.
        result = f"counted step {step}. " * 200
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
