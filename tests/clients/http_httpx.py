"""The HTTP client `httpx`, at OpenAI's own address."""

import harness
import http_loop


def run(api, stream):
    import httpx

    loop = http_loop.Loop(stream)
    with httpx.Client() as client:
        while loop.text is None:
            answer = client.post(http_loop.URL, headers=loop.headers, json=loop.body())
            answer.raise_for_status()
            loop.take(answer.text)
    return loop.text


harness.main(run)
