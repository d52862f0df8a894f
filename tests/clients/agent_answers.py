"""Judges what agents.sh's agents asked `tapegrad serve`, and what they showed.

usage: agent_answers.py NAME LOG LINES SHOWN [RESULT]

LOG is of `serve --log json --log-texts`, of which LINES were there before. Each request must have been answered; SHOWN, what the
agent printed, must hold the text of the last answer to a request that offers tools; with RESULT, the one before must be a call, whose
result the agent sent back, and RESULT stands in that.
"""

import json
import sys

name, log, before, shown, *result = sys.argv[1:]
records = [json.loads(line) for line in open(log).read().split("\n")[int(before):] if line]
records = [record for record in records if record.get("path") == "/v1/chat/completions"]
for record in records:
    assert record["status"] == 200, (record["status"], record.get("answer", "")[-400:])


def delta_of(record):
    events = [line[6:] for line in record["answer"].split("\n") if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    return {"text": "".join(choice["delta"].get("content") or "" for choice in choices),
            "calls": [call for choice in choices for call in choice["delta"].get("tool_calls") or []],
            "reason": choices[-1]["finish_reason"]}


# A conversation's title may be asked for besides.
records = [record for record in records if '"tools":' in record["request"]]
turns = [(json.loads(record["request"]), delta_of(record)) for record in records]
assert len(turns) == 1 + len(result), len(turns)
request, answer = turns[-1]
if result:
    assert turns[0][1]["reason"] == "tool_calls", turns[0][1]
    call = turns[0][1]["calls"][0]
    outputs = {message["tool_call_id"]: json.dumps(message["content"]) for message in request["messages"] if message["role"] == "tool"}
    assert result[0] in outputs[call["id"]], outputs
    print(f"{name}: it runs a command that the model calls, and sends back what that printed")
# A terminal's marks and the agent's own lines may stand around it.
words = answer["text"].split()
text = open(shown, errors="replace").read()
assert " ".join(words) in " ".join(text.split()), (text, answer)
print(f"{name}: {len(request['tools'])} tools, a prompt of {records[-1]['prompt_tokens']} tokens; the answer is shown as it was sent")
