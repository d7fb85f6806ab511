// The agent of Vercel's AI SDK.

import { ToolLoopAgent, jsonSchema, stepCountIs, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { ANTHROPIC_MODEL, COUNTER_SCHEMA, NEVER, OPENAI_MODEL, PROMPT, counter, main } from "./harness.mjs";

function modelOf(api) {
  if (api === "messages") {
    // This one wants the version in its address.
    return createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1` })(ANTHROPIC_MODEL);
  }
  const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
  return api === "responses" ? openai.responses(OPENAI_MODEL) : openai.chat(OPENAI_MODEL);
}

await main(async (api, stream) => {
  const agent = new ToolLoopAgent({
    model: modelOf(api),
    tools: {
      counter: tool({
        description: "Counts one step.",
        inputSchema: jsonSchema(COUNTER_SCHEMA),
        execute: async (given) => counter(given),
      }),
    },
    stopWhen: stepCountIs(NEVER),
  });
  if (!stream) return (await agent.generate({ prompt: PROMPT })).text;
  const result = await agent.stream({ prompt: PROMPT });
  // An error is a part of the stream, not an exception.
  for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  return result.text;
});
