"""The HTTP client `aiohttp`, at OpenAI's own address. It looks for a proxy only with `trust_env`."""

import harness
import http_loop


async def run(api, stream):
    import aiohttp

    loop = http_loop.Loop(stream)
    async with aiohttp.ClientSession(trust_env=True, raise_for_status=True) as client:
        while loop.text is None:
            async with client.post(
                http_loop.URL, headers=loop.headers, json=loop.body()
            ) as answer:
                loop.take(await answer.text())
    return loop.text


harness.main(run)
