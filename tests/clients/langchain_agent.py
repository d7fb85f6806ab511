"""LangChain's agent."""

import harness
from langchain_models import model_of, run_agent


def run(api, stream):
    from langchain.agents import create_agent

    agent = create_agent(model_of(api, stream), tools=[harness.counter])
    return run_agent(agent, stream)


harness.main(run)
