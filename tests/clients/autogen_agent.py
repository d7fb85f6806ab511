"""An assistant of AutoGen."""

import harness


def model_of(api):
    if api == "messages":
        from autogen_ext.models.anthropic import AnthropicChatCompletionClient

        return AnthropicChatCompletionClient(model="claude-3-7-sonnet-20250219", max_tokens=1024)
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    return OpenAIChatCompletionClient(model=harness.OPENAI_MODEL)


async def run(api, stream):
    from autogen_agentchat.agents import AssistantAgent

    agent = AssistantAgent(
        "assistant",
        model_of(api),
        tools=[harness.counter],
        max_tool_iterations=harness.NEVER,
        model_client_stream=stream,
    )
    result = None
    if stream:
        async for event in agent.run_stream(task=harness.PROMPT):
            result = event
    else:
        result = await agent.run(task=harness.PROMPT)
    return result.messages[-1].content


harness.main(run)
