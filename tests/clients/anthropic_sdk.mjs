// The Anthropic SDK, with a loop as people write it.

import Anthropic from "@anthropic-ai/sdk";
import { ANTHROPIC_MODEL, COUNTER_SCHEMA, PROMPT, counter, main } from "./harness.mjs";

await main(async (_api, stream) => {
  const client = new Anthropic();
  const tools = [
    { name: "counter", description: "Counts one step.", input_schema: COUNTER_SCHEMA },
  ];
  const messages = [{ role: "user", content: PROMPT }];
  for (;;) {
    const request = { model: ANTHROPIC_MODEL, max_tokens: 1024, tools, messages };
    const message = stream
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request);
    const calls = message.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return message.content.map((block) => block.text).join("");
    messages.push({ role: "assistant", content: message.content });
    const results = calls.map(({ id, input }) => ({
      type: "tool_result",
      tool_use_id: id,
      content: counter(input),
    }));
    messages.push({ role: "user", content: results });
  }
});
