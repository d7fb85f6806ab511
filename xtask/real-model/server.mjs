// A server for one small model that speaks as much of OpenAI's chat protocol as the test needs: streaming,
// usage, tools. It is started with the path of a GGUF file and prints one line with its port.
//
// A request with tools is answered by a call of one of them, which a grammar enforces: so small a model has
// no format of its own for calls. What came and went is counted, at `GET /counts`.

import { createServer } from "node:http";
import { getLlama, LlamaCompletion } from "node-llama-cpp";

const CONTEXT_TOKENS = 4096;
const DEFAULT_MAX_TOKENS = 256;
const MAX_BODY_BYTES = 1 << 20;

const llama = await getLlama({ build: "never", gpu: false });
const model = await llama.loadModel({ modelPath: process.argv[2] });
// More threads than free cores make it wait for itself.
const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });
const completion = new LlamaCompletion({ contextSequence: context.getSequence() });

const counts = { calls: 0, finished: 0, closed: 0, prompt_tokens: 0, completion_tokens: 0, generated: 0 };

/** A message as words, for a template that knows neither calls nor results. */
function words(message) {
  const parts = Array.isArray(message.content) ? message.content : [{ text: message.content ?? "" }];
  const text = parts.map((part) => part.text ?? "").join("");
  const calls = (message.tool_calls ?? []).map((call) => `${call.function.name} ${call.function.arguments}`);
  return [text, ...calls].filter((part) => part !== "").join("\n");
}

/** The conversation in ChatML. Only the template's own marks become special tokens. */
function prompt(messages) {
  const tokens = [];
  for (const message of messages) {
    const role = message.role === "tool" ? "user" : message.role;
    tokens.push(...model.tokenize(`<|im_start|>${role}\n`, true), ...model.tokenize(words(message), false));
    tokens.push(...model.tokenize("<|im_end|>\n", true));
  }
  tokens.push(...model.tokenize("<|im_start|>assistant\n", true));
  return tokens;
}

/** A schema without what grammars do not know. */
function plain(schema) {
  if (schema?.type === "object") {
    const properties = Object.entries(schema.properties ?? {}).map(([name, of]) => [name, plain(of)]);
    return { type: "object", properties: Object.fromEntries(properties) };
  }
  if (schema?.type === "array") return { type: "array", items: plain(schema.items), maxItems: 8 };
  return schema?.enum ? { enum: schema.enum } : { type: schema?.type ?? "string" };
}

function grammarOf(request) {
  if (!request.tools?.length || request.tool_choice === "none") return Promise.resolve(undefined);
  const calls = request.tools.map((tool) => ({
    type: "object",
    properties: { tool: { const: tool.function.name }, arguments: plain(tool.function.parameters) },
  }));
  return llama.createGrammarForJsonSchema(calls.length === 1 ? calls[0] : { oneOf: calls });
}

/** Answers one request; what is said goes to `say` as deltas. Gives usage and the reason for the end. */
async function answer(request, signal, say) {
  const grammar = await grammarOf(request);
  const input = prompt(request.messages);
  const usage = { prompt_tokens: input.length, completion_tokens: 0 };
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? DEFAULT_MAX_TOKENS;
  const { response, metadata } = await completion.generateCompletionWithMeta(input, {
    grammar,
    signal,
    maxTokens: Math.min(maxTokens, CONTEXT_TOKENS - input.length - 1),
    temperature: 0,
    onToken(tokens) {
      usage.completion_tokens += tokens.length;
      counts.generated += tokens.length;
    },
    onTextChunk(text) {
      if (!grammar) say({ content: text });
    },
  });
  usage.total_tokens = usage.prompt_tokens + usage.completion_tokens;
  const isCut = metadata.stopReason === "maxTokens";
  if (!grammar) return { usage, finish: isCut ? "length" : "stop" };
  if (isCut) {
    say({ content: response });
    return { usage, finish: "length" };
  }
  const call = JSON.parse(response);
  const of = { name: call.tool, arguments: JSON.stringify(call.arguments) };
  say({ tool_calls: [{ index: 0, id: `call_${counts.calls}`, type: "function", function: of }] });
  return { usage, finish: "tool_calls" };
}

async function chat(request, response) {
  const id = `chat-${++counts.calls}`;
  const abort = new AbortController();
  response.on("close", () => {
    if (response.writableFinished) return;
    counts.closed += 1;
    abort.abort(new Error("the client has gone"));
  });
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (more) => {
    const chunk = { id, object: "chat.completion.chunk", created: 0, model: request.model, ...more };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  const choice = (delta, finish_reason = null) => send({ choices: [{ index: 0, delta, finish_reason }] });
  choice({ role: "assistant", content: "" });
  try {
    const { usage, finish } = await answer(request, abort.signal, choice);
    choice({}, finish);
    if (request.stream_options?.include_usage) send({ choices: [], usage });
    counts.finished += 1;
    counts.prompt_tokens += usage.prompt_tokens;
    counts.completion_tokens += usage.completion_tokens;
    response.end("data: [DONE]\n\n");
  } catch (error) {
    if (!abort.signal.aborted) {
      send({ error: { message: String(error) } });
      response.end();
    }
  }
}

async function body(request) {
  let text = "";
  for await (const piece of request) {
    text += piece;
    if (text.length > MAX_BODY_BYTES) throw new Error("the request is too long");
  }
  return JSON.parse(text);
}

// There is one sequence of tokens: requests take turns.
let turn = Promise.resolve();

const server = createServer(async (request, response) => {
  if (request.method === "GET" && request.url === "/counts") {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(counts));
  } else if (request.method === "POST" && request.url === "/v1/chat/completions") {
    try {
      const asked = await body(request);
      turn = turn.then(() => chat(asked, response));
      await turn;
    } catch (error) {
      response.statusCode = 400;
      response.end(JSON.stringify({ error: { message: String(error) } }));
    }
  } else {
    response.statusCode = 404;
    response.end();
  }
});
server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
// Whoever started it has gone: so does it.
process.stdin.on("end", () => process.exit(0)).resume();
