#!/usr/bin/env python3
"""Compares the tokens and answers of conversations with those of transformers' apply_chat_template.

usage: compare_chat_masks.py make CHATS [--count N] [--tools]
       compare_chat_masks.py mark MODEL OUT
       compare_chat_masks.py judge MODEL CHATS LINES
       compare_chat_masks.py tiny TOKENIZER OUT
       compare_chat_masks.py loss MODEL CHATS LINES EVALUATION

`make` writes conversations: system texts, several turns, scripts, marks, special tokens' names, thoughts; with --tools, calls
and results, a call an answer, for templates that show them. `mark` copies a
folder's tokenizer and template, with {% generation %} around the answers. Between the two, chat_masks MODEL CHATS > LINES.
`judge` prints a line and returns 1 if a token or an answer differs. The answers are return_assistant_tokens_mask's where the
template has marks, and else what the text of the messages up to an answer has more than that of those before it with a
generation prompt; where that text is not how the whole begins, the answer ends at the first special token behind it.
`tiny` makes a small Llama with the tokenizer and template of a folder. `loss` compares what
`tapegrad evaluate MODEL --chat CHATS --block-size 8192 --json > EVALUATION` says of it with the mean of transformers' losses of
the tokens that LINES marks, each conversation by itself, and returns 1 if they differ by more than 1e-5.
"""
import argparse
import json
import os
import random
import shutil
import sys

WORDS = ["the", "Hello", "I'll", "don't", "naïve", "e\u0301", "\u00e9", "中文", "привет", "مرحبا", "👍🏽", "½", "123456", "3.14", "def f(x):",
         "ﬁ", "<|im_end|>", "<|eot_id|>", "<think>", "{{ x }}", "{% y %}", "\n", "\n\n", "  ", "\t", "!", "...", "'\"", "\\n", "</s>", "a\u0301"]


def text_of(rng, most=24):
    text = "".join(rng.choice(WORDS) + rng.choice(["", " ", " ", "\n"]) for _ in range(rng.randrange(1, most)))
    return rng.choice(["", "", " ", "\n"]) + text


def answer_of(rng):
    while True:
        text = text_of(rng)
        if rng.random() < 0.1:
            text = "<think>\n" + text_of(rng, 6) + "\n</think>\n\n" + text
        if text.strip(" \t\r\n\v\f"):
            return text


TOOLS = [{"type": "function", "function": {"name": "f", "description": "an \"é\"", "parameters": {
    "type": "object", "properties": {"x": {"type": "string", "description": "what"}}, "required": ["x"]}}}]


def turn_with_call(rng, number):
    """An answer that calls, with arguments that no other has, its result, and the answer to that."""
    given = {"y": rng.choice(WORDS), "x": f"argument {number}."}
    call = {"id": f"{number:09}", "type": "function", "function": {"name": "f", "arguments": given}}
    return [{"role": "user", "content": text_of(rng)},
            {"role": "assistant", "content": rng.choice(["", answer_of(rng)]), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "name": "f", "content": text_of(rng)},
            {"role": "assistant", "content": answer_of(rng)}]


def make(args):
    rng = random.Random(1337)
    with open(args.file, "w", encoding="utf-8") as out:
        for i in range(args.count):
            messages = [{"role": "system", "content": text_of(rng)}] if rng.random() < 0.3 else []
            for turn in range(rng.randrange(1, 6)):
                if args.tools and rng.random() < 0.5:
                    messages += turn_with_call(rng, i * 10 + turn)
                    continue
                messages += [{"role": "user", "content": text_of(rng)}, {"role": "assistant", "content": answer_of(rng)}]
            if rng.random() < 0.1:
                messages.append({"role": "user", "content": text_of(rng)})
            line = {"messages": messages}
            if args.tools:
                line["tools"] = TOOLS
            out.write(json.dumps(line, ensure_ascii=i % 2 == 0) + "\n")
    return 0


def template_of(folder):
    path = os.path.join(folder, "chat_template.jinja")
    if os.path.exists(path):
        return open(path, encoding="utf-8").read()
    return json.load(open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8"))["chat_template"]


# The text of templates for an answer, and the same with marks.
MARKS = [
    ("{{ content }}", "{% if message['role'] == 'assistant' %}{% generation %}{{ content }}{% endgeneration %}{% else %}{{ content }}{% endif %}"),
    ('{%- elif message.role == "assistant" %}', '{%- elif message.role == "assistant" %}{% generation %}'),
    ('{%- elif message.role == "tool" %}', '{% endgeneration %}{%- elif message.role == "tool" %}'),
    ("{{'<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}",
     "{{'<｜Assistant｜>'}}{% generation %}{{message['content'] + '<｜end▁of▁sentence｜>'}}{% endgeneration %}"),
    ("{{ message['content'] | trim }}",
     "{% if role == 'model' %}{% generation %}{{ message['content'] | trim }}{% endgeneration %}{% else %}{{ message['content'] | trim }}{% endif %}"),
]


def mark(args):
    template = template_of(args.model)
    if "{%- elif message.role" in template:  # Qwen's: `content` is a variable there
        marks = MARKS[1:3]
    else:
        marks = [m for m in MARKS if m[0] in template][:1]
    for before, after in marks:
        template = template.replace(before, after, 1)
    assert "{% generation %}" in template, "the template writes answers in a way that is not known here"
    os.makedirs(args.out, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(args.model, name), os.path.join(args.out, name))
    open(os.path.join(args.out, "chat_template.jinja"), "w", encoding="utf-8").write(template)
    return 0


def bare(content):
    white = " \t\r\n\v\f"
    return content.split("</think>")[-1].strip(white)


def end_of_answer(message, text, begin):
    """Behind what the template writes of a content, or of a call, which ends with its argument."""
    if "tool_calls" in message:
        argument = message["tool_calls"][0]["function"]["arguments"]["x"]
        return text.index(argument, begin) + len(argument)
    return text.index(bare(message["content"]), begin) + len(bare(message["content"]))


def answers_by_prefixes(tokenizer, messages, tools, text, encoded):
    specials = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}

    def render(count, prompt):
        return tokenizer.apply_chat_template(messages[:count], tools=tools, tokenize=False, add_generation_prompt=prompt)

    spans = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt, before = render(i, True), render(i, False)
        begin = len(os.path.commonprefix([prompt, text]))
        if begin < len(prompt) and not text.startswith(before):  # earlier answers are written otherwise
            header = prompt[len(before):]
            begin = text.rindex(header, 0, end_of_answer(message, text, spans[-1][1])) + len(header)
        through = render(i + 1, False)
        if text.startswith(through) and render(i + 1, True) != through:
            end = len(through)
        else:
            behind = end_of_answer(message, text, begin)
            end = next(e for token, (b, e) in zip(encoded["input_ids"], encoded["offset_mapping"])
                       if token in specials and b >= behind)
        spans.append((begin, end))
    return [int(any(b < end and e > begin for begin, end in spans)) for b, e in encoded["offset_mapping"]]


def judge(args):
    from transformers import PreTrainedTokenizerFast
    tokenizer = PreTrainedTokenizerFast.from_pretrained(args.model)
    tokenizer.chat_template = template_of(args.model)
    marked = "{% generation %}" in tokenizer.chat_template
    chats = [json.loads(line) for line in open(args.chats, encoding="utf-8")]
    ours = [json.loads(line) for line in open(args.lines)]
    assert len(chats) == len(ours), f"{len(ours)} lines of {len(chats)} conversations"
    tokens = answers = wrong = 0
    for chat, our in zip(chats, ours):
        messages, tools = chat["messages"], chat.get("tools")
        if marked:
            out = tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            ids, mask = out["input_ids"], out["assistant_masks"]
        else:
            ids = tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=True)["input_ids"]
            text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
            encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            assert encoded["input_ids"] == ids
            mask = answers_by_prefixes(tokenizer, messages, tools, text, encoded)
        tokens += len(ids)
        answers += sum(mask)
        if ids != our["ids"] or mask != our["mask"]:
            wrong += 1
            if wrong <= 2:
                at = next((i for i, both in enumerate(zip(zip(ids, mask), zip(our["ids"], our["mask"]))) if both[0] != both[1]), None)
                if at is None:
                    at = min(len(ids), len(our["ids"])) - 1
                print(f"differs at token {at}: {messages!r}\n  theirs {ids[at-3:at+5]} {mask[at-3:at+5]} "
                      f"{tokenizer.decode(ids[at-3:at+5])!r}\n  ours   {our['ids'][at-3:at+5]} {our['mask'][at-3:at+5]}", file=sys.stderr)
    print(f"{args.model}: {'marks' if marked else 'prefixes'}: {len(chats)} conversations, {tokens} tokens, {answers} of answers, "
          f"{wrong} conversations differ")
    return 1 if wrong else 0


def tiny(args):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(1)
    vocab = json.load(open(os.path.join(args.model, "tokenizer.json"), encoding="utf-8"))
    size = 1 + max(max(vocab["model"]["vocab"].values()), max(t["id"] for t in vocab["added_tokens"]))
    config = LlamaConfig(vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=8192, tie_word_embeddings=False)
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():  # predictions that differ
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(args.out)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if os.path.exists(os.path.join(args.model, name)):
            shutil.copy(os.path.join(args.model, name), os.path.join(args.out, name))
    return 0


def loss(args):
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    total, count = 0.0, 0
    for line in open(args.lines):
        chat = json.loads(line)
        ids = torch.tensor([chat["ids"]])
        labels = torch.where(torch.tensor([chat["mask"]]) == 1, ids, -100)
        counted = int((labels[:, 1:] != -100).sum())
        with torch.no_grad():
            total += model(input_ids=ids, labels=labels).loss.double().item() * counted
        count += counted
    ours = json.load(open(args.evaluation))
    theirs = total / count
    print(f"{args.model}: {count} tokens of answers, loss {theirs:.7f}; ours of {ours['tokens']}: {ours['loss']:.7f}, "
          f"difference {ours['loss'] - theirs:.1e}")
    return 0 if count == ours["tokens"] and abs(ours["loss"] - theirs) <= 1e-5 else 1


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
commands = parser.add_subparsers(dest="command", required=True)
p = commands.add_parser("make")
p.add_argument("file")
p.add_argument("--count", type=int, default=1000)
p.add_argument("--tools", action="store_true")
p = commands.add_parser("mark")
p.add_argument("model")
p.add_argument("out")
p = commands.add_parser("judge")
p.add_argument("model")
p.add_argument("chats")
p.add_argument("lines")
p = commands.add_parser("tiny")
p.add_argument("model")
p.add_argument("out")
p = commands.add_parser("loss")
p.add_argument("model")
p.add_argument("chats")
p.add_argument("lines")
p.add_argument("evaluation")
args = parser.parse_args()
sys.exit({"make": make, "mark": mark, "judge": judge, "tiny": tiny, "loss": loss}[args.command](args))
