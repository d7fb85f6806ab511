"""An agent of Semantic Kernel."""

import os

import harness


def service_of(api):
    if api == "messages":
        from semantic_kernel.connectors.ai.anthropic import AnthropicChatCompletion

        return AnthropicChatCompletion(
            ai_model_id=harness.ANTHROPIC_MODEL, api_key=os.environ["ANTHROPIC_API_KEY"]
        )
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion

    return OpenAIChatCompletion(ai_model_id=harness.OPENAI_MODEL)


async def run(api, stream):
    from semantic_kernel.agents import ChatCompletionAgent
    from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
    from semantic_kernel.functions import kernel_function

    class Counting:
        @kernel_function(description="Counts one step.")
        def counter(self, step: int) -> str:
            return harness.counter(step)

    choice = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=harness.NEVER)
    agent = ChatCompletionAgent(
        service=service_of(api),
        name="counting",
        plugins=[Counting()],
        function_choice_behavior=choice,
    )
    if not stream:
        return str(await agent.get_response(messages=harness.PROMPT))
    text = ""
    async for piece in agent.invoke_stream(messages=harness.PROMPT):
        text += str(piece)
    return text


harness.main(run)
