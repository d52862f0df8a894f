"""A model for lm-evaluation-harness (lm_eval), which scores and writes texts by its rules. Where lm_eval is installed, importing this
registers it as `tapegrad`:

    import lm_eval, tapegrad.lm_eval
    lm_eval.simple_evaluate(model="tapegrad", model_args={"pretrained": "runs/mine"}, tasks=["piqa"])

Without it, requests are whatever has `args`, such as SimpleNamespace(args=(context, continuation))."""

import numpy as np

from tapegrad import _core, load
from tapegrad._core import Error
from tapegrad.arrays import tensor

try:
    from lm_eval.api.model import LM as _Base
    from lm_eval.api.registry import register_model as _register
except ImportError:
    _Base, _register = object, lambda name: lambda model: model


@_register("tapegrad")
class TapegradLM(_Base):
    """`pretrained`: what load() opens, or a Decoder. Other options of load() may follow. Requests are computed one by one: batch_size
    and device are taken, and change nothing."""

    def __init__(self, pretrained, batch_size=None, max_batch_size=None, device=None, **options):
        super().__init__()
        self.model = pretrained if isinstance(pretrained, _core.Decoder) else load(pretrained, **options)
        self.most = self.model.config["block_size"]

    def _scores(self, tokens, count):
        """(log-probabilities, whether each is the likeliest) of the last `count` tokens, behind those before them."""
        tokens = tokens[max(0, len(tokens) - 1 - self.most) :]
        logits = self.model.logits(tensor([tokens[:-1]]))[0, -count:]
        of_all, targets = _core.log_softmax(logits, -1).numpy(), np.array(tokens[-count:])
        return of_all[np.arange(count), targets].astype(np.float64), of_all.argmax(-1) == targets

    def _pair(self, context, continuation):
        """White space at the context's end counts as the continuation's; tokens are those of the whole text."""
        head, whole = context.rstrip(), self.model.encode(context + continuation)
        count = len(whole) - len(self.model.encode(head))
        if not 0 < count <= self.most:
            raise Error(f"[loglikelihood] a continuation has {count} tokens, and must have from 1 to {self.most}: {continuation!r}")
        before = self.model.encode(head, prompt=True)
        scores, likeliest = self._scores(before[: len(before) - (len(whole) - count)] + whole, count)
        return float(scores.sum()), bool(likeliest.all())

    def loglikelihood(self, requests, disable_tqdm=False):
        """(sum of the continuation's log-probabilities, whether the model would write it) for each (context, continuation)."""
        return [self._pair(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        """The log-probability of each whole text, in windows that follow each other, each behind the last token before it."""
        sums = []
        for request in requests:
            (text,) = request.args
            ids = self.model.encode(text)
            tokens = self.model.encode("", prompt=True)[-1:] + ids
            ends = [min(begin + self.most, len(ids)) for begin in range(0, len(ids), self.most)]
            parts = [self._scores(tokens[: end + 1], min(self.most, end - self.most * i)) for i, end in enumerate(ends)]
            sums.append(float(sum(scores.sum() for scores, _ in parts)))
        return sums

    def _text(self, context, options):
        stops = options.get("until") or []
        stops, most = [stops] if isinstance(stops, str) else stops, options.get("max_gen_toks", 256)
        if most >= self.most:
            raise Error(f"[generate_until] max_gen_toks is {most}, and the model sees {self.most} tokens")
        ids = self.model.encode(context)
        prompt = context if len(ids) + most <= self.most else self.model.decode(ids[most - self.most :])
        choice = {"temperature": options.get("temperature", 1.0)} if options.get("do_sample") else {"greedy": True}
        text = ""
        for piece in self.model.stream(prompt, max_new_tokens=most, **choice):
            text += piece
            ends = [text.find(stop) for stop in stops if stop and stop in text]
            if ends:
                return text[: min(ends)]
        return text

    def generate_until(self, requests, disable_tqdm=False):
        """What the model writes behind each (context, {"until": …, "max_gen_toks": …}), up to the first of the stops."""
        return [self._text(*request.args) for request in requests]
