// The HTTP client `axios`, at OpenAI's own address.

import axios from "axios";
import { main } from "./harness.mjs";
import { loop } from "./http_loop.mjs";

await main((_api, stream) =>
  loop(stream, async (url, headers, body) => {
    const answer = await axios.post(url, body, { headers, responseType: "text", transformResponse: [] });
    return answer.data;
  }),
);
