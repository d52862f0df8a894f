#!/usr/bin/env python3
"""Makes conversations in which a model calls three functions, for docs/serving.md.

usage: tool_chats.py OUT [COUNT]

OUT gets
  chats.jsonl           COUNT [20000] conversations in OpenAI's form: questions, calls, results, answers
  tokens/               a tokenizer for them

The tokenizer spells names and numbers, a token for each letter and digit, which are the same ones wherever they stand: in a
question, in the arguments of a call and in a result. So a small model copies them by looking for the letters before. Byte-pair
encoding has one token for " Oslo", and another one for "Oslo" behind a quote. All other words are a token each.
"""

import json
import os
import random
import re
import sys
import zlib

CITIES = ("Athens Berlin Bern Cairo Dakar Delhi Dublin Hanoi Havana Kyoto Lagos Lima Lisbon London Madrid Nairobi Oslo Paris "
          "Prague Quito Rome Seoul Tunis Vienna").split()
WORDS = ("apple banana barrel bottle butter button camera candle carrot cheese cherry coffee dinner dollar engine flower forest "
         "garden guitar hammer island kitten ladder letter lizard market meadow mirror monkey orange parrot pebble pepper pillow "
         "planet potato puddle rabbit ribbon rocket saddle shadow silver spider strawberry summer ticket tomato turtle valley "
         "violin wallet walnut window winter yellow").split()
SKIES = ["rain", "snow", "sun", "clouds", "fog"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"

TALK = [("Hello!", "Hello! How can I help?"), ("Hi there", "Hello! How can I help?"), ("Good morning!", "Good morning! How can I help?"),
        ("Thank you!", "You are welcome."), ("Thanks a lot", "You are welcome."), ("Goodbye!", "Goodbye!"),
        ("Who are you?", "I am a small model that can add, count letters and look up the weather."),
        ("What can you do?", "I can add, count letters and look up the weather.")]
SUMS = ["What is {a} plus {b}?", "Add {a} and {b}.", "How much is {a} + {b}?", "What is the sum of {a} and {b}?", "{a} + {b}?",
        "I have {a} apples and get {b} more. How many are that?", "Please add up {a} and {b}."]
LONG_SUMS = ["What is {a} plus {b} plus {c}?", "Add {a}, {b} and {c}.", "How much is {a} + {b} + {c}?"]
WEATHER = ["What is the weather in {city}?", "How is the weather in {city} today?", "Does it rain in {city}?", "Is it cold in {city}?",
           "Do I need a coat in {city}?", "Tell me the weather in {city}, please."]
COUNTS = ["How many \"{letter}\" are in \"{word}\"?", "Count the \"{letter}\" in \"{word}\".", "How often is \"{letter}\" in \"{word}\"?"]


def function(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [function("add", "Adds two numbers", a={"type": "integer"}, b={"type": "integer"}),
         function("weather", "The weather in a city", city={"type": "string"}),
         function("count", "Counts a letter in a word", letter={"type": "string"}, word={"type": "string"})]


class Tools:
    """The functions themselves. Only they know the weather, which is another one in each conversation."""

    def __init__(self, rng):
        self.table = {city: f"{rng.randint(-9, 39)} degrees, {rng.choice(SKIES)}" for city in CITIES}

    def run(self, name, arguments):
        functions = {"add": self.add, "weather": self.weather, "count": self.count}
        return str(functions[name](**arguments))

    def add(self, a, b):
        return a + b

    def weather(self, city):
        return self.table[city]

    def count(self, letter, word):
        return word.count(letter)


def is_held_out(key):
    """One question of ten is kept from training, by its numbers, its word and letter, or its words and city."""
    return zlib.crc32(key.encode()) % 10 == 0


def question(rng, tools, held_out=False):
    """A question, the calls that it needs, and the answer."""
    kind = rng.choice(["sum", "sum", "long sum", "weather", "weather", "count", "count", "talk"])
    if kind == "talk":  # no call
        text, answer = rng.choice(TALK)
        return text, [], answer
    while True:
        if kind == "weather":
            text, city = rng.choice(WEATHER), rng.choice(CITIES)
            calls, key = [("weather", {"city": city})], text + city
            text, answer = text.format(city=city), f"In {city}: {tools.weather(city)}."
        elif kind == "count":
            word = rng.choice(WORDS)
            letter = rng.choice(word if rng.random() < 0.7 else LETTERS)
            calls, key = [("count", {"letter": letter, "word": word})], letter + word
            text = rng.choice(COUNTS).format(letter=letter, word=word)
            answer = f"There are {tools.count(letter, word)} \"{letter}\" in \"{word}\"."
        else:  # of three numbers, the second call needs the result of the first
            numbers = [rng.randrange(10 ** rng.randint(1, 3)) for _ in range(2 if kind == "sum" else 3)]
            calls, total, key = [], numbers[0], str(numbers)
            for number in numbers[1:]:
                calls.append(("add", {"a": total, "b": number}))
                total += number
            text = rng.choice(SUMS if kind == "sum" else LONG_SUMS).format(**dict(zip("abc", numbers)))
            answer = f"{' plus '.join(map(str, numbers))} is {total}."
        if is_held_out(key) == held_out:
            return text, calls, answer


def shown_tools(rng):
    """The tools in any order, with what clients add to a schema; the last one is zod's."""
    closed = {"additionalProperties": False}
    before, behind = rng.choice([({}, {}), ({}, closed), ({"$schema": "http://json-schema.org/draft-07/schema#"}, closed)])
    tools = json.loads(json.dumps(TOOLS).replace("integer", rng.choice(["integer", "number"])))
    for tool in tools:
        tool["function"]["parameters"] = before | tool["function"]["parameters"] | behind
    return rng.sample(tools, len(tools))


def conversation(rng):
    tools = Tools(rng)
    messages = [{"role": "system", "content": "You are a helpful assistant."}] if rng.random() < 0.3 else []
    for _ in range(rng.randint(1, 3)):
        text, calls, answer = question(rng, tools)
        messages.append({"role": "user", "content": text})
        for name, arguments in calls:
            call = {"id": f"call{len(messages)}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": tools.run(name, arguments)})
        messages.append({"role": "assistant", "content": answer})
    return {"tools": shown_tools(rng), "messages": messages}


# What tapegrad writes around tools, calls and results for a model of its own (docs/serving.md).
CONVENTION = """<|im_start|>system
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>
<tool_response>
</tool_response><|im_end|>
"""
# A key of JSON, a word of small letters with the space before it, a word with a large letter, a digit, signs, a space.
PIECES = r'"[a-zA-Z]+": | ?[a-z]+|[A-Z][a-z]*|[0-9]| ?[^ \na-zA-Z0-9"]+|[^a-zA-Z0-9]'


def tokenizer(texts):
    """A tokenizer.json: each piece of the texts is a token but for names, and all else are bytes."""
    shown = {}  # GPT-2's letters for bytes
    for byte in range(256):
        plain = 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte
        shown[byte] = chr(byte if plain else 256 + len([one for one in shown.values() if ord(one) >= 256]))
    vocab = list(shown.values())
    pieces = {piece for text in texts for piece in re.findall(PIECES, text)} - set(CITIES + WORDS)
    vocab += sorted({"".join(shown[byte] for byte in piece.encode()) for piece in pieces} - set(vocab))
    split = {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "ignore_merges": True, "vocab": {token: i for i, token in enumerate(vocab)}, "merges": []}
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "decoder": byte_level,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "model": model}


def main(out, count=20000):
    rng = random.Random(1)
    chats = [conversation(rng) for _ in range(int(count))]
    texts = [CONVENTION] + [json.dumps(tool) for chat in chats for tool in chat["tools"]]
    for chat in chats:
        for message in chat["messages"]:
            texts.append(message["content"] or "")
            texts += [f'{{"name": "{name["name"]}", "arguments": {name["arguments"]}}}\n'
                      for name in (call["function"] for call in message.get("tool_calls", []))]
    os.makedirs(f"{out}/tokens", exist_ok=True)
    with open(f"{out}/chats.jsonl", "w") as file:
        file.writelines(json.dumps(chat) + "\n" for chat in chats)
    with open(f"{out}/tokens/tokenizer.json", "w") as file:
        json.dump(tokenizer(texts), file)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
