"""Claude Code, through its agent SDK. It keeps to folders of its own and always streams."""

import os
import tempfile

import harness


async def run(api, stream):
    import claude_agent_sdk as sdk

    @sdk.tool("counter", "Counts one step.", harness.counter_schema())
    async def counter(arguments):
        return {"content": [{"type": "text", "text": harness.counter(arguments["step"])}]}

    with tempfile.TemporaryDirectory() as home:
        options = sdk.ClaudeAgentOptions(
            cwd=home,
            model=harness.ANTHROPIC_MODEL,
            tools=[],
            mcp_servers={"counting": sdk.create_sdk_mcp_server("counting", tools=[counter])},
            allowed_tools=["mcp__counting__counter"],
            include_partial_messages=stream,
            setting_sources=[],
            env={
                "HOME": home,
                "CLAUDE_CONFIG_DIR": os.path.join(home, "config"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ENABLE_TOOL_SEARCH": "false",
            },
        )
        text = ""
        async for message in sdk.query(prompt=harness.PROMPT, options=options):
            if isinstance(message, sdk.ResultMessage):
                if message.is_error:
                    raise RuntimeError(message.result or message.subtype)
                text = message.result or ""
        return text


harness.main(run)
