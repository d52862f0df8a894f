#!/usr/bin/env python3
"""Scores made-up items of tasks with transformers and plain PyTorch, for tasks.sh.

usage: compare_tasks.py make FOLDER
       compare_tasks.py judge MODEL FOLDER

make writes items for piqa, winogrande and lambada_openai, a task texts.json that writes texts, and its items. judge reads what
evaluate --per-item has written for each of them, FOLDER/TASK.lines.jsonl, and computes the same by the rules of
lm-evaluation-harness: prompts, tokens of context and continuation, windows, log-likelihoods, greedy matches, texts. Prints a line
for each task, and returns 1 if a choice, a match or a text differs, or a log-likelihood by more than 1e-4 nats.
"""
import json
import pathlib
import random
import sys

WORDS = "the cat sat on a mat and dog ate it é 日本 , . 12 - \"so\" River under blue \n we".split(" ")
STOPS, NEW_TOKENS = ["e", "\n"], 12
TEXTS = {"output_type": "generate_until", "doc_to_text": "{{ text }}", "doc_to_target": "x", "until": STOPS,
         "max_gen_toks": NEW_TOKENS}


def make(folder):
    rng = random.Random(1)
    phrase = lambda least, most: " ".join(rng.choices(WORDS, k=rng.randint(least, most))).strip() or "a"
    items = {"piqa": [], "winogrande": [], "lambada_openai": [], "texts": []}
    for i in range(40):
        long = 40 if i % 8 == 0 else 10  # longer than the model sees
        items["piqa"].append({"goal": phrase(1, long), "sol1": phrase(1, 3), "sol2": phrase(1, 3), "label": i % 2})
        items["winogrande"].append({"sentence": f"{phrase(1, long)} _ {phrase(1, 3)}", "option1": phrase(1, 2),
                                    "option2": phrase(1, 2), "answer": str(i % 2 + 1)})
        items["lambada_openai"].append({"text": f"{phrase(1, long)} {rng.choice(WORDS[:9])}"})
        items["texts"].append({"text": phrase(1, long)})
    (folder / "texts.json").write_text(json.dumps(TEXTS))
    for task, lines in items.items():
        (folder / f"{task}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


class Judge:
    def __init__(self, path):
        import torch
        import transformers
        from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
        transformers.utils.logging.disable_progress_bar()
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
        # As the file says: AutoTokenizer gives a Qwen another tokenizer than its folder's.
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=path + "/tokenizer.json")
        self.length = self.model.config.max_position_embeddings

    def logits(self, ids):
        with self.torch.no_grad():
            return self.model(self.torch.tensor([ids])).logits[0]

    def likelihood(self, context, continuation):
        """The harness's _encode_pair and _loglikelihood_tokens: the sum, and whether the continuation is greedy."""
        blanks = len(context) - len(context.rstrip())
        if blanks > 0:
            context, continuation = context[:-blanks], context[-blanks:] + continuation
        whole, of_context = self.tokenizer.encode(context + continuation), len(self.tokenizer.encode(context))
        target = whole[of_context:]
        log_p = self.logits(whole[-(self.length + 1):][:-1])[-len(target):].log_softmax(-1)
        greedy = log_p.argmax(-1).tolist() == target
        return float(log_p[range(len(target)), target].double().sum()), greedy

    def text(self, context):
        ids = self.tokenizer.encode(context)[-(self.length - NEW_TOKENS):]
        made = []
        for _ in range(NEW_TOKENS):
            token = int(self.logits(ids + made)[-1].argmax())
            if token == self.model.config.eos_token_id:
                break
            made.append(token)
            if any(stop in self.tokenizer.decode(made, clean_up_tokenization_spaces=False) for stop in STOPS):
                break
        text = self.tokenizer.decode(made, clean_up_tokenization_spaces=False)
        for stop in STOPS:
            text = text.split(stop)[0]
        return text


def prompts(task, item):
    """Pairs of context and continuation, one for each choice."""
    if task == "piqa":
        return [(f"Question: {item['goal']}\nAnswer:", " " + item[s]) for s in ("sol1", "sol2")]
    if task == "winogrande":
        at = item["sentence"].index("_")
        return [(item["sentence"][:at] + item[o], " " + item["sentence"][at + 1:].strip()) for o in ("option1", "option2")]
    return [(" ".join(item["text"].split(" ")[:-1]), " " + item["text"].split(" ")[-1])]


def judge(path, folder):
    model, wrong = Judge(path), 0
    for task in ("piqa", "winogrande", "lambada_openai", "texts"):
        items = [json.loads(line) for line in open(folder / f"{task}.jsonl", encoding="utf-8")]
        lines = [json.loads(line) for line in open(folder / f"{task}.lines.jsonl", encoding="utf-8")][1:]
        assert len(items) == len(lines) == 40
        farthest, differ = 0.0, 0
        for item, line in zip(items, lines):
            if task == "texts":
                differ += model.text(item["text"]) != line["text"]
                continue
            scores = [model.likelihood(*pair) for pair in prompts(task, item)]
            farthest = max([farthest] + [abs(a - b) for (a, _), b in zip(scores, line["logprobs"])])
            sums = [score for score, _ in scores]
            differ += line["acc"] != (scores[0][1] if task == "lambada_openai" else sums.index(max(sums)))
        within = "" if task == "texts" else f"; log-likelihoods within {farthest:.1e} nats"
        print(f"{path}: {task}: {len(lines)} items, {differ} differ{within}")
        wrong += differ > 0 or farthest > 1e-4
    return wrong > 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(judge(sys.argv[2], pathlib.Path(sys.argv[3])))
