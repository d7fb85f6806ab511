"""A function agent of LlamaIndex."""

import harness


def model_of(api):
    if api == "messages":
        from llama_index.llms.anthropic import Anthropic

        return Anthropic(model=harness.ANTHROPIC_MODEL, max_tokens=1024)
    from llama_index.llms.openai import OpenAI, OpenAIResponses

    return (OpenAIResponses if api == "responses" else OpenAI)(model=harness.OPENAI_MODEL)


async def run(api, stream):
    from llama_index.core.agent.workflow import FunctionAgent

    agent = FunctionAgent(
        tools=[harness.counter], llm=model_of(api), streaming=stream, timeout=None
    )
    return str(await agent.run(harness.PROMPT, max_iterations=harness.NEVER))


harness.main(run)
