"""A crew of one."""

import os

import harness


def run(api, stream):
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool

    if api == "messages":
        llm = LLM(
            model=f"anthropic/{harness.ANTHROPIC_MODEL}",
            base_url=os.environ["ANTHROPIC_BASE_URL"],
            stream=stream,
        )
    else:
        llm = LLM(
            model=f"openai/{harness.OPENAI_MODEL}",
            base_url=os.environ["OPENAI_BASE_URL"],
            stream=stream,
        )
    counting = Agent(
        role="Counter",
        goal="Count",
        backstory="You count.",
        tools=[tool("counter")(harness.counter)],
        llm=llm,
        max_iter=harness.NEVER,
        verbose=False,
    )
    task = Task(description=harness.PROMPT, expected_output="The last number.", agent=counting)
    return Crew(agents=[counting], tasks=[task], verbose=False).kickoff().raw


harness.main(run)
