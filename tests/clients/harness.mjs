// What the Node clients have in common: their arguments, their tool, their last line.

import { parseArgs } from "node:util";

export const PROMPT = "Count for ever: call the tool `counter` again and again.";
export const OPENAI_MODEL = "gpt-4o";
export const ANTHROPIC_MODEL = "claude-sonnet-4-6";
// Limits of the clients' own are set to this, so that none but the one under test ends a run.
export const NEVER = 100_000;

export const COUNTER_SCHEMA = {
  type: "object",
  properties: { step: { type: "integer", description: "The number of the step." } },
  required: ["step"],
  additionalProperties: false,
};

let toolsRun = 0;

export function counter({ step }) {
  toolsRun += 1;
  return `counted step ${step}`;
}

/** Sets what `endstop run` sets for its command, for runs without it. */
function pointAt(base) {
  process.env.OPENAI_BASE_URL = process.env.OPENAI_API_BASE = `${base}/v1`;
  process.env.ANTHROPIC_BASE_URL = base;
  for (const key of ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]) process.env[key] ??= "sk-test";
}

/** Runs a client and prints how it ended, as one line of JSON. `run(api, stream)` gives the final text. */
export async function main(run) {
  const { values } = parseArgs({
    options: {
      api: { type: "string", default: "chat" },
      stream: { type: "boolean", default: false },
      base: { type: "string" },
    },
  });
  if (values.base) pointAt(values.base);
  const result = { ended: "returned", error: null, text: "" };
  try {
    result.text = String(await run(values.api, values.stream));
  } catch (error) {
    const text = String(error?.message ?? error).slice(0, 2000);
    Object.assign(result, { ended: "raised", error: error?.name ?? typeof error, text });
    if (error?.constructor?.name && result.error === "Error") result.error = error.constructor.name;
  }
  result.tools_run = toolsRun;
  // A line of its own, whatever was printed before.
  const line = `\n${JSON.stringify(result)}\n`;
  process.stdout.write(line, () => process.exit(result.error ? 1 : 0));
}
