"""The HTTP client `requests`, at OpenAI's own address."""

import harness
import http_loop


def run(api, stream):
    import requests

    loop = http_loop.Loop(stream)
    with requests.Session() as client:
        while loop.text is None:
            answer = client.post(http_loop.URL, headers=loop.headers, json=loop.body())
            answer.raise_for_status()
            loop.take(answer.text)
    return loop.text


harness.main(run)
