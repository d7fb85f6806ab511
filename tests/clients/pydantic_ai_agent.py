"""An agent of Pydantic AI."""

import harness


async def run(api, stream):
    from pydantic_ai import Agent, UsageLimits

    model = {
        "chat": f"openai-chat:{harness.OPENAI_MODEL}",
        "responses": f"openai-responses:{harness.OPENAI_MODEL}",
        "messages": f"anthropic:{harness.ANTHROPIC_MODEL}",
    }[api]
    agent = Agent(model, tools=[harness.counter])
    limits = UsageLimits(request_limit=None)
    if not stream:
        return (await agent.run(harness.PROMPT, usage_limits=limits)).output
    async with agent.run_stream(harness.PROMPT, usage_limits=limits) as result:
        return await result.get_output()


harness.main(run)
