// The tool runner of the Anthropic SDK.

import Anthropic from "@anthropic-ai/sdk";
import { ANTHROPIC_MODEL, COUNTER_SCHEMA, PROMPT, counter, main } from "./harness.mjs";

await main(async (_api, stream) => {
  const tool = {
    type: "custom",
    name: "counter",
    description: "Counts one step.",
    input_schema: COUNTER_SCHEMA,
    parse: (input) => input,
    run: counter,
  };
  const runner = new Anthropic().beta.messages.toolRunner({
    model: ANTHROPIC_MODEL,
    max_tokens: 1024,
    messages: [{ role: "user", content: PROMPT }],
    tools: [tool],
    stream,
  });
  let message;
  for await (const turn of runner) message = stream ? await turn.finalMessage() : turn;
  return message.content.map((block) => block.text ?? "").join("");
});
