"""An agent of Agno."""

import harness


def model_of(api):
    if api == "messages":
        from agno.models.anthropic import Claude

        return Claude(id=harness.ANTHROPIC_MODEL, max_tokens=1024)
    from agno.models.openai import OpenAIChat, OpenAIResponses

    return (OpenAIResponses if api == "responses" else OpenAIChat)(id=harness.OPENAI_MODEL)


def run(api, stream):
    from agno.agent import Agent

    agent = Agent(model=model_of(api), tools=[harness.counter], telemetry=False)
    if not stream:
        return agent.run(harness.PROMPT).content
    text = ""
    for event in agent.run(harness.PROMPT, stream=True):
        text += event.content if isinstance(event.content, str) else ""
    return text


harness.main(run)
