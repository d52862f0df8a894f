#!/usr/bin/env python3
"""Writes fewshot.json: draws of Python's own generator, and prompts with examples by lm-evaluation-harness's rules.

usage: golden_fewshot.py OUT.json     (Python 3.11 wrote the one here; it needs nothing else)
The rules, of the harness's lm_eval/api/samplers.py: a task has one random.Random(1234), with which each item in its order
draws `shots` examples; one more if both splits are the same (or both have no name), and then those that are equal to the
item are left out, and the first `shots` stay.
"""
import json
import random
import sys

SEED = 1234


def document(i):
    return {"animal": f"cat {i}", "ends": ["sat", "ate"], "label": i % 2}


def text(doc):
    return f"the {doc['animal']}"


def prompts(items, examples, shots, spare):
    generator = random.Random(SEED)
    for item in items:
        drawn = generator.sample(examples, shots + spare)
        if spare:
            drawn = [doc for doc in drawn if doc != item][:shots]
        yield "".join(f"{text(doc)} {doc['ends'][doc['label']]}\n\n" for doc in drawn) + text(item)


def case(items, examples, shots, spare, name):
    return {"name": name, "items": items, "examples": None if examples is items else examples, "shots": shots,
            "spare": spare, "prompts": list(prompts(items, examples, shots, spare))}


def main():
    generator, seeds = random.Random(SEED), (0, 1, 42, 2**32 - 1)
    sizes = [(10, 3), (21, 5), (22, 5), (1, 1), (5, 5), (0, 0), (85, 6), (86, 6), (277, 64), (278, 64), (7473, 5), (39905, 11),
             (4_000_000_000, 2), (64, 64)]
    draws = [{"of": n, "drawn": generator.sample(range(n), k)} for n, k in sizes]
    seeded = [{"seed": s, "drawn": random.Random(s).sample(range(10**9), 8)} for s in seeds]
    few, many, more = [document(i) for i in range(9)], [document(i) for i in range(60)], [document(i) for i in range(30, 90)]
    cases = [case(few, few, 5, True, "one file"), case(few, more, 3, False, "two files"), case(many, more, 7, True, "a spare one"),
             case(many, more, 7, False, "its own example")]
    with open(sys.argv[1], "w") as file:
        json.dump({"draws": draws, "seeded": seeded, "prompts": cases}, file, separators=(",", ":"))
        file.write("\n")


main()
