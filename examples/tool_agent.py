#!/usr/bin/env python3
"""Plays the agent for a model that learnt tool_chats.py's conversations: asks, runs what it calls, and reads its answer.

usage: tool_agent.py URL [TRIES]        of `tapegrad serve`, such as http://127.0.0.1:8080
       tool_agent.py --questions TRIES  prints the questions and the calls that they need, for other clients

The questions are none of those that the model was trained on. A try is right if the calls are those that the question needs,
with these arguments and in this order, and the last answer has what the last of them returned; and if there is no call where
none is needed. The model decides by itself whether it calls (tool_choice: auto), at temperature 0.
"""

import json
import random
import re
import sys
import urllib.error
import urllib.request
from collections import Counter

import tool_chats

MOST_REQUESTS = 6  # of a try: a model may call without end


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def result_of(tools, name, arguments):
    try:
        return tools.run(name, json.loads(arguments))
    except (KeyError, TypeError, ValueError) as error:  # a call of nothing that there is
        return f"error: {error}"


def play(url, tools, text):
    """Asks until the model calls nothing more. Returns its calls, with what each returned, and the last answer."""
    messages, calls = [{"role": "user", "content": text}], []
    for _ in range(MOST_REQUESTS):
        body = {"messages": messages, "tools": tool_chats.TOOLS, "temperature": 0}
        try:
            message = post(f"{url}/v1/chat/completions", body)["choices"][0]["message"]
        except urllib.error.HTTPError as error:  # many calls do not fit into the model's context
            return calls, f"HTTP {error.code}: {error.read().decode()}"
        messages.append(message)
        if not message.get("tool_calls"):
            return calls, message["content"] or ""
        for call in message["tool_calls"]:
            function = call["function"]
            result = result_of(tools, function["name"], function["arguments"])
            calls.append((function["name"], function["arguments"], result))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return calls, ""


def asked_in(number):
    """The functions, the question and the calls that it needs of a try."""
    rng = random.Random(f"try {number}")
    tools = tool_chats.Tools(rng)
    return tools, *tool_chats.question(rng, tools, held_out=True)[:2]


def is_right(wanted, calls, answer):
    if [(name, arguments) for name, arguments in wanted] != [(name, json.loads(text)) for name, text, _ in calls]:
        return False
    result = calls[-1][2] if calls else ""
    return answer != "" and re.search(rf"(?<![\w-]){re.escape(result)}(?!\w)", answer) is not None


def main(url, tries=200):
    right, asked = Counter(), Counter()
    for number in range(int(tries)):
        tools, text, wanted = asked_in(number)
        kind = " ".join(name for name, _ in wanted) or "no call"
        calls, answer = play(url, tools, text)
        asked[kind] += 1
        right[kind] += is_right(wanted, calls, answer)
        if not is_right(wanted, calls, answer):
            print(f"wrong: {text}\n  called {calls}\n  said {answer!r}")
    for kind in sorted(asked):
        print(f"{kind}: {right[kind]} of {asked[kind]}")
    print(f"{sum(right.values())} of {tries} tries end with the right result")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--questions":
        for number in range(int(sys.argv[2])):
            _, text, wanted = asked_in(number)
            print(json.dumps({"question": text, "calls": wanted}))
    else:
        main(*sys.argv[1:])
