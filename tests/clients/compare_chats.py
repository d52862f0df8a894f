#!/usr/bin/env python3
"""Compares chat templates as tapegrad executes them with transformers: equal bytes, equal errors.

usage: compare_chats.py make CASES.jsonl [--count 1000] [--seed 1]
       compare_chats.py judge CASES.jsonl TEMPLATE RESULTS.jsonl [TEMPLATE RESULTS.jsonl …]
       compare_chats.py extract TOKENIZER_FOLDER TEMPLATE
`make` makes up conversations; render_chats (render_chats.cpp) renders them; `judge` renders them with
transformers, and compares. tests/clients/chats.sh does all of this.
"""
import argparse
import json
import random
import sys

TEXTS = ["Hello", "What is 2 + 2?", "  blanks around  ", "two\nlines", "", "Grüße, 世界 🌍", 'quotes " and \'',
         "a <tag> & more", "{{ not a template }} {% nor this %}", "\ttab\r\nand CR", "null", "\\n no break",
         "<think>\nhm\n</think>\n\nFour.", "Done.</think>rest", "<think>open", "<|im_end|>", "ünï\u2028code\u00a0space",
         "final.\n\n", "<tool_response>\nx\n</tool_response>", "1", "x" * 300]


def schema(rng, depth=0):
    kind = rng.choice(["string", "integer", "number", "boolean", "array", "object", "enum", "any", "union"])
    made = {}
    if kind == "enum":
        made = {"type": "string", "enum": rng.sample(["a", "b", "ü", "d e"], rng.randint(1, 3))}
    elif kind == "array":
        made = {"type": "array"}
        if rng.random() < 0.8 and depth < 2:
            made["items"] = schema(rng, depth + 1)
    elif kind == "object":
        made = {"type": "object"}
        if depth < 2:
            made["properties"] = {rng.choice(["x", "y", "items", "name"]) + str(i): schema(rng, depth + 1)
                                  for i in range(rng.randint(0, 3))}
            made["required"] = list(made["properties"])[:1]
    elif kind == "union":
        made = {"anyOf": [{"type": "string"}, {"type": "null"}]} if rng.random() < 0.5 else {"type": ["string", "null"]}
    elif kind != "any":
        made = {"type": kind}
    if rng.random() < 0.6:
        made["description"] = rng.choice(["a text", "Ort & Zeit", 'with "quotes"', "two\nlines", ""])
    if rng.random() < 0.15:
        made["default"] = rng.choice([1, "x", None, True, 0.5, [1, 2]])
    if rng.random() < 0.1:
        made["nullable"] = rng.random() < 0.5
    return made


def tool(rng, i):
    properties = {rng.choice(["city", "unit", "when", "n"]) + str(j): schema(rng) for j in range(rng.randint(0, 3))}
    function = {"name": rng.choice(["get_weather", "search", "f", "über"]) + str(i),
                "description": rng.choice(["Does a thing.", "Line one\nline two", "ünï <x>"]),
                "parameters": {"type": "object", "properties": properties,
                               "required": rng.sample(list(properties), rng.randint(0, len(properties)))}}
    if rng.random() < 0.15:
        del function["parameters"]["required"]
    if rng.random() < 0.1:
        function["return"] = {"type": "string", "description": "what it is"}
    if rng.random() < 0.05:
        del function["parameters"]
    return {"type": "function", "function": function} if rng.random() < 0.95 else function


def value(rng, depth=0):
    simple = ["Berlin", "größe", 3, -1, 2.5, 1e-7, 1e22, True, False, None, "two\nlines", 'a "b"', 10**15, 0.1]
    r = rng.random()
    if depth < 2 and r < 0.15:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if depth < 2 and r < 0.3:
        return {rng.choice("abc") + str(i): value(rng, depth + 1) for i in range(rng.randint(0, 3))}
    return rng.choice(simple)


def call(rng, i):
    arguments = {rng.choice(["city", "n", "k"]) + str(j): value(rng) for j in range(rng.randint(0, 3))}
    made = {"type": "function", "function": {"name": rng.choice(["get_weather0", "search1"]), "arguments": arguments}}
    if rng.random() < 0.15:
        made["function"]["arguments"] = json.dumps(arguments)
    if rng.random() < 0.6:
        made["id"] = "".join(rng.choice("abcdefghi123456789") for _ in range(9)) if rng.random() < 0.8 else f"call_{i}"
    return made if rng.random() < 0.95 else made["function"]


def parts(rng):
    made = []
    for _ in range(rng.randint(0, 3)):
        kind = rng.choice(["text", "text", "image", "image_url", "audio", "video"])
        made.append({"type": "text", "text": rng.choice(TEXTS)} if kind == "text" else {"type": kind})
    return made


def conversation(rng):
    messages = []
    multi, tools_used, wild = rng.random() < 0.15, rng.random() < 0.35, rng.random() < 0.12
    content = lambda: parts(rng) if multi and rng.random() < 0.5 else rng.choice(TEXTS)
    if rng.random() < 0.45:
        messages.append({"role": rng.choice(["system", "system", "system", "developer"]), "content": content()})
    for turn in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": content()})
        if tools_used and rng.random() < 0.7:
            for _ in range(rng.randint(1, 2)):
                calls = [call(rng, i) for i in range(rng.choice([1, 1, 1, 2]))]
                message = {"role": "assistant", "content": rng.choice([None, "", "I look.", "<think>\na\n</think>\n\nb"]),
                           "tool_calls": calls}
                if rng.random() < 0.1:
                    del message["content"]
                if rng.random() < 0.2:
                    message[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS)
                messages.append(message)
                for one in calls:
                    answer = {"role": "tool", "content": rng.choice(["22", '{"t": 1}', "ünï", "a\nb"])}
                    if rng.random() < 0.7:
                        answer["tool_call_id"] = one.get("id", "abcdef123")
                    if rng.random() < 0.5:
                        answer["name"] = "get_weather0"
                    if rng.random() < 0.1:
                        answer["content"] = [{"type": "text", "text": "part"}]
                    messages.append(answer)
        if turn < 3 and rng.random() < 0.9:
            message = {"role": "assistant", "content": content()}
            if rng.random() < 0.15:
                message[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS)
            messages.append(message)
    if wild:
        i = rng.randrange(len(messages))
        what = rng.randrange(6)
        if what == 0:
            messages[i]["role"] = rng.choice(["user", "assistant", "tool", "ipython", "odd", "model"])
        elif what == 1:
            messages[i].pop("content", None)
        elif what == 2:
            messages.insert(i, dict(messages[i]))
        elif what == 3:
            messages[i]["content"] = rng.choice([None, 3, {"a": 1}, True])
        elif what == 4:
            messages[i]["tool_calls"] = rng.choice([[], None, {}])
        else:
            messages = []
    made = {"messages": messages, "tools": None, "documents": None,
            "add_generation_prompt": rng.random() < 0.5,
            "special_tokens": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
            "variables": {}}
    if tools_used or rng.random() < 0.1:
        made["tools"] = [tool(rng, i) for i in range(rng.randint(0 if rng.random() < 0.2 else 1, 3))]
    if rng.random() < 0.05:
        made["documents"] = [{"title": "T", "text": "some text"}, {"title": "Ü", "text": ""}][:rng.randint(0, 2)]
    for name, choices in {"enable_thinking": [True, False], "thinking": [True, False], "date_string": ["24 Nov 2026"],
                          "tools_in_user_message": [True, False], "builtin_tools": [["code_interpreter"], ["brave_search", "wolfram_alpha"]],
                          "reasoning_effort": ["low", "high"], "model_identity": ["I am a test."], "keep_past_thinking": [True, False],
                          "preserve_thinking": [True, False], "add_vision_id": [True], "custom_tools": [None],
                          "bos_token": [""]}.items():
        if rng.random() < 0.12:
            made["variables"][name] = rng.choice(choices)
    return made


def make(arguments):
    rng = random.Random(arguments.seed)
    with open(arguments.cases, "w", encoding="utf-8") as file:
        for _ in range(arguments.count):
            file.write(json.dumps(conversation(rng), ensure_ascii=False) + "\n")


def expected(source, chat, utils):
    variables = {**chat["special_tokens"], **chat["variables"]}
    try:
        compiled = utils._compile_jinja_template(source)
        text, generated = utils._render_with_assistant_indices(
            compiled, chat["messages"], chat["tools"], chat["documents"], chat["add_generation_prompt"], **variables)
        size = lambda at: len(text[:at].encode())
        return {"text": text, "generated": [[size(a), size(b)] for a, b in generated]}
    except Exception as error:
        return {"error": str(error), "type": type(error).__name__}


def judge_one(template, cases, results_path, show, utils):
    source = open(template, encoding="utf-8", newline="").read()
    results = [json.loads(line) for line in open(results_path, encoding="utf-8", newline="\n")]
    assert len(cases) == len(results), (len(cases), len(results))
    wrong = words = errors = 0
    for i, (chat, result) in enumerate(zip(cases, results)):
        wanted = expected(source, chat, utils)
        if "error" in wanted:
            errors += 1
            if "error" not in result:
                wrong += 1
            elif not result["error"].endswith(wanted["error"]):
                words += 1
                if words <= show:
                    print(f"  case {i}: {wanted['type']}: {wanted['error']!r}, here: {result['error']!r}")
                continue
            else:
                continue
        elif result.get("text") == wanted["text"] and result["generated"] == wanted["generated"]:
            continue
        else:
            wrong += 1
        if wrong <= show:
            print(f"  case {i}: expected {json.dumps(wanted)[-900:]}\n  got {json.dumps(result)[-900:]}\n  of {json.dumps(chat)[:600]}")
    print(f"{template}: {len(cases) - wrong} of {len(cases)} equal, {errors} of them errors, "
          f"{words} of these in other words", flush=True)
    return wrong == 0


def judge(arguments):
    from transformers.utils import chat_template_utils as utils
    cases = [json.loads(line) for line in open(arguments.cases, encoding="utf-8")]
    pairs = zip(arguments.judged[::2], arguments.judged[1::2], strict=True)
    equal = [judge_one(template, cases, results, arguments.show, utils) for template, results in pairs]
    sys.exit(0 if all(equal) else 1)


def extract(arguments):
    config = json.load(open(f"{arguments.folder}/tokenizer_config.json", encoding="utf-8"))
    template = config["chat_template"]
    if not isinstance(template, str):
        template = next(one["template"] for one in template if one["name"] == "default")
    open(arguments.template, "w", encoding="utf-8", newline="").write(template)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
commands = parser.add_subparsers(required=True)
one = commands.add_parser("make")
one.add_argument("cases")
one.add_argument("--count", type=int, default=1000)
one.add_argument("--seed", type=int, default=1)
one.set_defaults(run=make)
one = commands.add_parser("judge")
one.add_argument("cases")
one.add_argument("judged", nargs="+", metavar="TEMPLATE RESULTS")
one.add_argument("--show", type=int, default=3)
one.set_defaults(run=judge)
one = commands.add_parser("extract")
one.add_argument("folder")
one.add_argument("template")
one.set_defaults(run=extract)
parsed = parser.parse_args()
parsed.run(parsed)
