"""The tool runner of the Anthropic SDK, which continues a thread instead of sending the conversation again."""

import harness


def run(api, stream):
    import anthropic

    runner = anthropic.Anthropic().beta.messages.tool_runner(
        model=harness.ANTHROPIC_MODEL,
        max_tokens=1024,
        messages=[{"role": "user", "content": harness.PROMPT}],
        tools=[anthropic.beta_tool(harness.counter)],
        stream=stream,
    )
    message = None
    for turn in runner:
        message = turn.get_final_message() if stream else turn
    return "".join(block.text for block in message.content if block.type == "text")


harness.main(run)
