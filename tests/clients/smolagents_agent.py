"""A tool-calling agent of smolagents. It demands a call in every answer, and ends with one of `final_answer`."""

import harness


def run(api, stream):
    from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool

    agent = ToolCallingAgent(
        tools=[tool(harness.counter)],
        model=OpenAIModel(model_id=harness.OPENAI_MODEL),
        max_steps=harness.NEVER,
        stream_outputs=stream,
        verbosity_level=LogLevel.OFF,
    )
    return agent.run(harness.PROMPT)


harness.main(run)
