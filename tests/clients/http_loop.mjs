// What the HTTP clients have in common: a loop on chat completions, at OpenAI's own address.

import { COUNTER_SCHEMA, OPENAI_MODEL, PROMPT, counter } from "./harness.mjs";

const URL = "https://api.openai.com/v1/chat/completions";

/** The message of a stream. */
function joined(events) {
  const calls = [];
  let content = "";
  for (const line of events.split("\n")) {
    if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
    for (const { delta } of JSON.parse(line.slice(6)).choices) {
      content += delta.content ?? "";
      for (const part of delta.tool_calls ?? []) {
        const call = (calls[part.index] ??= { type: "function", function: { name: "", arguments: "" } });
        call.id = part.id ?? call.id;
        call.function.name += part.function.name ?? "";
        call.function.arguments += part.function.arguments ?? "";
      }
    }
  }
  return { content, tool_calls: calls };
}

/** Goes on until an answer calls no tool; gives its text. `post(url, headers, body)` sends a text and gives one. */
export async function loop(stream, post) {
  const tools = [{ type: "function", function: { name: "counter", parameters: COUNTER_SCHEMA } }];
  const messages = [{ role: "user", content: PROMPT }];
  const headers = {
    "content-type": "application/json",
    authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
  };
  for (;;) {
    const body = JSON.stringify({ model: OPENAI_MODEL, messages, tools, stream });
    const answer = await post(URL, headers, body);
    const message = stream ? joined(answer) : JSON.parse(answer).choices[0].message;
    const calls = message.tool_calls ?? [];
    if (calls.length === 0) return message.content;
    messages.push({ role: "assistant", content: null, tool_calls: calls });
    for (const call of calls) {
      const content = counter(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}
