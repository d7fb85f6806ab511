// An agent of Mastra.

import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { z } from "zod";
import { ANTHROPIC_MODEL, NEVER, OPENAI_MODEL, PROMPT, counter, main } from "./harness.mjs";

function modelOf(api) {
  if (api === "messages") {
    // This one wants the version in its address.
    return createAnthropic({ baseURL: `${process.env.ANTHROPIC_BASE_URL}/v1` })(ANTHROPIC_MODEL);
  }
  const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
  return api === "responses" ? openai.responses(OPENAI_MODEL) : openai.chat(OPENAI_MODEL);
}

await main(async (api, stream) => {
  const counting = createTool({
    id: "counter",
    description: "Counts one step.",
    inputSchema: z.object({ step: z.number() }),
    execute: async (given) => counter(given),
  });
  const agent = new Agent({
    id: "counting",
    name: "counting",
    instructions: "You count.",
    model: modelOf(api),
    tools: { counter: counting },
  });
  if (!stream) return (await agent.generate(PROMPT, { maxSteps: NEVER })).text;
  const result = await agent.stream(PROMPT, { maxSteps: NEVER });
  for await (const part of result.fullStream) if (part.type === "error") throw part.payload.error;
  return result.text;
});
