"""LangGraph's prebuilt loop."""

import warnings

import harness
from langchain_models import model_of, run_agent


def run(api, stream):
    from langgraph.prebuilt import create_react_agent

    # It has moved to LangChain, and is what most graphs in use are built on.
    warnings.simplefilter("ignore")
    agent = create_react_agent(model_of(api, stream), tools=[harness.counter])
    return run_agent(agent, stream)


harness.main(run)
