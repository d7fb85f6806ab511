"""The agents SDK of OpenAI."""

import harness


async def run(api, stream):
    import agents

    agents.set_tracing_disabled(True)
    agents.set_default_openai_api("responses" if api == "responses" else "chat_completions")
    agent = agents.Agent(
        name="counter",
        model=harness.OPENAI_MODEL,
        tools=[agents.function_tool(harness.counter)],
    )
    if not stream:
        result = await agents.Runner.run(agent, harness.PROMPT, max_turns=harness.NEVER)
        return result.final_output
    result = agents.Runner.run_streamed(agent, harness.PROMPT, max_turns=harness.NEVER)
    async for _ in result.stream_events():
        pass
    return result.final_output


harness.main(run)
