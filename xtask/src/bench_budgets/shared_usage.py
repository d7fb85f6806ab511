"""Runs of Pydantic AI at once that share one usage and its limit."""

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RunUsage, UsageLimits

upstream, name, calls, tokens, cap, choices = sys.argv[1:]
model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{upstream}/v1", api_key="upstream"))
agent = Agent(model, model_settings={"max_tokens": int(cap), "extra_body": {"n": int(choices)}})
usage = RunUsage()
limits = UsageLimits(request_limit=None, total_tokens_limit=int(tokens))


async def one():
    try:
        await agent.run("Go on.", usage=usage, usage_limits=limits)
        return "passed"
    except UsageLimitExceeded:
        return "stopped"


async def main():
    ends = await asyncio.gather(*(one() for _ in range(int(calls))))
    print(f"{ends.count('passed')} runs passed, {ends.count('stopped')} ended with `UsageLimitExceeded`")


asyncio.run(main())
