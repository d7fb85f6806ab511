"""An agent of Microsoft's Agent Framework."""

import harness


def client_of(api):
    if api == "messages":
        from agent_framework.anthropic import AnthropicClient

        return AnthropicClient(model=harness.ANTHROPIC_MODEL)
    from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

    # The first of them speaks the interface of responses.
    kind = OpenAIChatClient if api == "responses" else OpenAIChatCompletionClient
    return kind(model=harness.OPENAI_MODEL)


async def run(api, stream):
    from agent_framework import Agent

    client = client_of(api)
    client.function_invocation_configuration["max_iterations"] = harness.NEVER
    agent = Agent(client=client, tools=[harness.counter])
    if not stream:
        return (await agent.run(harness.PROMPT)).text
    updates = agent.run(harness.PROMPT, stream=True)
    async for _ in updates:
        pass
    return (await updates.get_final_response()).text


harness.main(run)
