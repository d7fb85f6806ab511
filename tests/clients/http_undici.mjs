// The HTTP client `undici`, at OpenAI's own address, with the agent that looks for a proxy.

import { EnvHttpProxyAgent, request } from "undici";
import { main } from "./harness.mjs";
import { loop } from "./http_loop.mjs";

await main((_api, stream) => {
  const dispatcher = new EnvHttpProxyAgent();
  return loop(stream, async (url, headers, body) => {
    const answer = await request(url, { method: "POST", headers, body, dispatcher });
    if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
    return answer.body.text();
  });
});
