"""Speaks to `tapegrad serve` with OpenAI's own Python library, as its users do, streaming and not, errors included.

usage: openai_client.py URL MODEL      serve.sh starts the server
"""

import sys

import openai

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="right-key", max_retries=0)
messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]

assert [m.id for m in client.models.list()] == [model]
assert client.models.retrieve(model).owned_by == "tapegrad"

# Texts, at once and as a stream.
asked = dict(model=model, prompt="once upon", max_tokens=12, seed=3, logprobs=2, echo=True)
answer = client.completions.create(**asked)
text = answer.choices[0].text
assert text.startswith("once upon") and answer.usage.completion_tokens <= 12
log = answer.choices[0].logprobs
assert len(log.tokens) == len(log.token_logprobs) == len(log.top_logprobs) == len(log.text_offset)
assert log.token_logprobs[0] is None and all(x < 0 for x in log.token_logprobs[1:])
parts = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
assert "".join(p.choices[0].text for p in parts if p.choices) == text
assert parts[-1].usage == answer.usage and not parts[-1].choices
more = client.completions.create(model=model, prompt=["a", "b"], n=2, max_tokens=3, extra_body={"top_k": 5, "min_p": 0.1})
assert [c.index for c in more.choices] == [0, 1, 2, 3]

# Chats.
asked = dict(model=model, messages=messages, max_completion_tokens=15, seed=4, logprobs=True, top_logprobs=3)
answer = client.chat.completions.create(**asked)
choice = answer.choices[0]
assert choice.message.role == "assistant" and choice.finish_reason in ("stop", "length")
assert all(len(t.top_logprobs) == 3 and isinstance(t.bytes, list) for t in choice.logprobs.content)
with client.chat.completions.create(**asked, stream=True) as stream:
    parts = list(stream)
assert parts[0].choices[0].delta.role == "assistant"
assert "".join(p.choices[0].delta.content or "" for p in parts) == choice.message.content
assert parts[-1].choices[0].finish_reason == choice.finish_reason
left = client.chat.completions.create(**asked, stream=True)
next(iter(left))
left.close()  # a client that leaves

# Vectors: the library asks for base64 and returns floats.
vectors = [e.embedding for e in client.embeddings.create(model=model, input=["once upon", "a time"]).data]
assert len(vectors) == 2 and all(abs(sum(x * x for x in v) - 1) < 1e-5 for v in vectors)


def refused(kind, param, code, call):
    try:
        call()
    except kind as error:
        assert (error.param, error.code) == (param, code), (error.param, error.code)
        return
    raise AssertionError(f"{param}: not refused")


create = client.completions.create
refused(openai.BadRequestError, "best_of", "unsupported_parameter", lambda: create(model=model, prompt="a", best_of=4))
refused(openai.BadRequestError, "max_tokens", "context_length_exceeded", lambda: create(model=model, prompt="a", max_tokens=100000))
ignored = client.completions.with_raw_response.create(model=model, prompt="a", max_tokens=1, extra_body={"colour": 1})
assert ignored.headers["X-Tapegrad-Ignored"] == "colour"
refused(openai.NotFoundError, "model", "model_not_found", lambda: create(model="gpt-5", prompt="a"))
chat = client.chat.completions.create
tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
assert chat(model=model, messages=messages, tools=[tool], tool_choice="auto", max_tokens=1).choices
refused(openai.BadRequestError, "tools[0].type", "invalid_value", lambda: chat(model=model, messages=messages, tools=[{"type": "web_search"}]))
stranger = openai.OpenAI(base_url=url + "/v1", api_key="wrong-key", max_retries=0)
refused(openai.AuthenticationError, None, "invalid_api_key", lambda: stranger.models.list())
print(f"openai {openai.__version__} (Python): all calls are answered as they should be")
