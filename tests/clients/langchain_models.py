"""What the clients built on LangChain have in common."""

import harness


def model_of(api, stream):
    """The model of an interface."""
    if api == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model=harness.ANTHROPIC_MODEL, max_tokens=1024, streaming=stream)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model=harness.OPENAI_MODEL, use_responses_api=api == "responses", streaming=stream
    )


def run_agent(agent, stream):
    """Runs an agent to its end, as a stream of messages or as a whole."""
    given = {"messages": [{"role": "user", "content": harness.PROMPT}]}
    config = {"recursion_limit": harness.NEVER}
    last = None
    if stream:
        for mode, part in agent.stream(given, config, stream_mode=["messages", "values"]):
            if mode == "values":
                last = part["messages"][-1]
    else:
        last = agent.invoke(given, config)["messages"][-1]
    content = last.content
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
