"""An agent of Google's ADK: over LiteLLM, or on Gemini's own interface."""

import os

import harness


def model_of(api):
    if api == "gemini":
        return harness.GEMINI_MODEL
    from google.adk.models.lite_llm import LiteLlm

    return LiteLlm(
        model=f"openai/{harness.OPENAI_MODEL}", api_base=os.environ["OPENAI_BASE_URL"]
    )


async def run(api, stream):
    from google.adk.agents import LlmAgent, RunConfig
    from google.adk.agents.run_config import StreamingMode
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    agent = LlmAgent(name="counting", model=model_of(api), tools=[harness.counter])
    runner = InMemoryRunner(agent, app_name="counting")
    session = await runner.session_service.create_session(app_name="counting", user_id="user")
    config = RunConfig(
        max_llm_calls=harness.NEVER,
        streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE,
    )
    said = types.Content(role="user", parts=[types.Part(text=harness.PROMPT)])
    text = ""
    async for event in runner.run_async(
        user_id="user", session_id=session.id, new_message=said, run_config=config
    ):
        if event.error_code:
            raise RuntimeError(f"{event.error_code}: {event.error_message}")
        if event.is_final_response() and event.content:
            text = "".join(part.text or "" for part in event.content.parts)
    return text


harness.main(run)
