// Node's own `fetch`, at OpenAI's own address. It looks for a proxy from 22.21 and 24.5 on.

import { main } from "./harness.mjs";
import { loop } from "./http_loop.mjs";

await main((_api, stream) =>
  loop(stream, async (url, headers, body) => {
    const answer = await fetch(url, { method: "POST", headers, body });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.text();
  }),
);
