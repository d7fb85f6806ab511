// The OpenAI SDK: its own tool loop for chat, a loop as people write it for responses.

import OpenAI from "openai";
import { COUNTER_SCHEMA, NEVER, OPENAI_MODEL, PROMPT, counter, main } from "./harness.mjs";

async function chat(client, stream) {
  const tool = {
    type: "function",
    function: { name: "counter", function: counter, parse: JSON.parse, parameters: COUNTER_SCHEMA },
  };
  const runner = client.chat.completions.runTools(
    { model: OPENAI_MODEL, stream, tools: [tool], messages: [{ role: "user", content: PROMPT }] },
    { maxChatCompletions: NEVER },
  );
  return runner.finalContent();
}

async function responses(client, stream) {
  const tools = [{ type: "function", name: "counter", parameters: COUNTER_SCHEMA, strict: true }];
  const input = [{ role: "user", content: PROMPT }];
  for (;;) {
    const request = { model: OPENAI_MODEL, input, tools };
    const response = stream
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    const calls = response.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return response.output_text;
    for (const { call_id, name, arguments: given } of calls) {
      input.push({ type: "function_call", call_id, name, arguments: given });
      const output = counter(JSON.parse(given));
      input.push({ type: "function_call_output", call_id, output });
    }
  }
}

await main((api, stream) => {
  const client = new OpenAI();
  return api === "responses" ? responses(client, stream) : chat(client, stream);
});
