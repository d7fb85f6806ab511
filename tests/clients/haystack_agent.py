"""An agent of Haystack."""

import harness


def model_of(api, stream):
    # A generator streams if there is something to give the pieces to.
    callback = (lambda piece: None) if stream else None
    if api == "messages":
        from haystack_integrations.components.generators.anthropic import AnthropicChatGenerator

        return AnthropicChatGenerator(
            model=harness.ANTHROPIC_MODEL,
            generation_kwargs={"max_tokens": 1024},
            streaming_callback=callback,
        )
    from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator

    kind = OpenAIResponsesChatGenerator if api == "responses" else OpenAIChatGenerator
    return kind(model=harness.OPENAI_MODEL, streaming_callback=callback)


def run(api, stream):
    from haystack.components.agents import Agent
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function

    agent = Agent(
        chat_generator=model_of(api, stream),
        tools=[create_tool_from_function(harness.counter)],
        max_agent_steps=harness.NEVER,
    )
    result = agent.run(messages=[ChatMessage.from_user(harness.PROMPT)])
    return result["last_message"].text


harness.main(run)
