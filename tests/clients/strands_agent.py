"""An agent of Strands, which streams every call; with `stream` it passes the pieces on."""

import harness


def model_of(api):
    if api == "messages":
        from strands.models.anthropic import AnthropicModel

        return AnthropicModel(model_id=harness.ANTHROPIC_MODEL, max_tokens=1024)
    from strands.models.openai import OpenAIModel

    return OpenAIModel(model_id=harness.OPENAI_MODEL)


async def run(api, stream):
    from strands import Agent, tool

    agent = Agent(model=model_of(api), tools=[tool(harness.counter)], callback_handler=None)
    if not stream:
        return str(await agent.invoke_async(harness.PROMPT))
    async for event in agent.stream_async(harness.PROMPT):
        if "result" in event:
            return str(event["result"])


harness.main(run)
