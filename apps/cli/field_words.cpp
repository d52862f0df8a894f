#include "tapegrad/apps/cli/field_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tapegrad::cli {
namespace {

// Lower case, words apart by one space, and each z an s.
std::string folded(std::string_view text) {
  std::string result = " ";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool part = std::isalnum(byte) != 0 || byte >= 0x80 || c == '.';
    const char lower = part ? static_cast<char>(std::tolower(byte)) : ' ';
    if (lower == ' ' && result.back() == ' ') continue;
    result += lower == 'z' ? 's' : lower;
  }
  return result;
}

}  // namespace

// Only what the options' own help does not say.
const std::vector<FieldWord>& all_field_words() {
  static const std::vector<FieldWord> list = {
      {{"quantize", "quantized", "quantization", "dequantize", "4-bit", "8-bit", "int4", "GPTQ"},
       "Quantised weights: 4 to 8 bits for each number, in memory or in a GGUF file.",
       {"--weights", "export --dtype", "--cache"}},
      {{"QLoRA"},
       "Adapters beside quantised weights: --lora-rank with --weights.",
       {"train --lora-rank", "train --weights"}},
      {{"prefill", "chunked prefill", "prompt processing"},
       "Prefill reads a prompt's tokens side by side, before the first new token.",
       {"--prompt-chunk", "bench --prompt"}},
      {{"speculative decoding", "assisted generation", "draft model", "prompt lookup"},
       "Speculative decoding: tokens are proposed, by a draft model or from the text, and checked "
       "in one pass.",
       {"--draft", "--draft-tokens", "--lookup"}},
      {{"KV cache", "key value cache", "paged attention", "cache quantization"},
       "The KV cache keeps keys and values of earlier tokens while a text is made.",
       {"--kv-cache", "--cache", "serve --cache-memory", "serve --ctx"}},
      {{"flash attention", "memory efficient attention", "sdpa"},
       "Attention always works in tiles and never holds all scores (flash attention): it has no "
       "option.",
       {}},
      {{"mixed precision", "AMP", "autocast", "half precision", "bfloat16", "fp16", "int8",
        "8-bit training"},
       "Mixed precision: products of linear layers in bf16 or int8, sums and weights in f32.",
       {"train --dtype", "bench --dtype"}},
      {{"beam search", "beams"},
       "Beam search keeps several translations at once.",
       {"translate --beam", "translate --length-penalty"}},
      {{"early stopping", "patience"},
       "Early stopping ends a run whose validation loss has stopped falling.",
       {"--early-stop", "--eval-interval", "--keep"}},
      {{"data parallel", "DDP", "ZeRO", "FSDP", "distributed", "MPI", "multi-node"},
       "Data parallel: `mpirun -n 4 tapegrad train …` shares batches, gradients and the moments of "
       "AdamW (ZeRO-2), and with --shard parameters all weights (ZeRO-3), among processes.",
       {"train --gradient-accumulation-steps", "train --shard", "train --comm-dtype",
        "train --ranks", "train --bandwidth", "train --latency"}},
      {{"DiLoCo", "local SGD", "Lookahead", "federated averaging", "low communication",
        "outer optimizer"},
       "Local steps: processes train by themselves, and meet only every H steps.",
       {"train --local-steps", "train --groups", "train --outer-learning-rate",
        "train --outer-momentum"}},
      {{"federated learning", "geo-distributed", "offline", "sneakernet"},
       "Meetings through files: groups in different places train apart, and carry files.",
       {"train --meet", "train --group", "train --of", "train --meet-key", "meet --wait"}},
      {{"EMA", "exponential moving average", "weight averaging", "Polyak averaging", "SWA",
        "AveragedModel", "model averaging"},
       "The exponential moving average of the weights (EMA), or their mean from an update on "
       "(SWA), is evaluated and saved in their place.",
       {"train --ema", "train --swa-start"}},
      {{"gradient accumulation", "micro-batch", "microbatch", "grad accum"},
       "Gradient accumulation adds the gradients of several batches before a step.",
       {"train --gradient-accumulation-steps"}},
      {{"gradient checkpointing", "activation checkpointing", "rematerialization"},
       "Blocks run again for their gradients in place of keeping activations.",
       {"--recompute"}},
      {{"Shampoo", "second-order", "preconditioner", "Kronecker factors"},
       "SOAP is Adam in the eigenvectors of Shampoo's preconditioner.",
       {"train --optimizer", "train --precondition-frequency", "train --max-precond-dim"}},
      {{"gradient clipping", "max grad norm"},
       "The norm of the gradient is limited.",
       {"--grad-clip"}},
      {{"nucleus sampling"}, "Choose among the likeliest tokens.", {"--top-p"}},
      {{"DPO", "ORPO", "RLHF", "preference", "alignment"},
       "Learn which of two answers is preferred.",
       {"train --preferences", "train --preference-loss", "train --beta"}},
      {{"distillation", "distill"},
       "A small model learns from the probabilities of a larger one.",
       {"train --teacher", "train --teacher-weight", "train --teacher-temperature"}},
      {{"SFT", "instruction tuning", "finetune", "fine-tune", "fine-tuning"},
       "Go on training a model with texts or conversations of your own.",
       {"train --init-from", "train --chat", "train --lora-rank", "train --freeze"}},
      {{"PEFT", "adapter"},
       "LoRA adapters beside a model's weights.",
       {"--adapter", "train --lora-rank", "serve --lora", "export --format"}},
      {{"context length", "context window", "sequence length", "max length", "n_ctx"},
       "How many tokens a model sees at once.",
       {"--block-size", "--context", "serve --ctx"}},
      {{"learning rate schedule", "scheduler", "warmup", "cosine", "SGDR", "warm restarts",
        "StepLR", "MultiStepLR", "ExponentialLR", "OneCycleLR", "CosineAnnealingWarmRestarts"},
       "How the learning rate changes over the steps.",
       {"--schedule", "--warmup-iters", "--min-lr", "--lr-decay-iters", "--step-size",
        "--milestones", "--gamma", "--t-mult"}},
      {{"structured output", "constrained decoding", "JSON mode", "grammar"},
       "Texts that fit a JSON schema.",
       {"sample --json-schema", "sample --json-object"}},
      {{"tensorboard", "wandb", "logging", "plot", "loss curve"},
       "Curves of a run: a page in the browser, event files, a small chart.",
       {"train --serve", "train --tensorboard", "train --chart"}},
      {{"perplexity", "benchmark", "lm-eval", "harness"},
       "tapegrad evaluate measures losses and tasks.",
       {"evaluate --task", "evaluate --limit"}},
      {{"grouped query attention", "GQA", "multi query", "MQA"},
       "Fewer heads of keys and values than of queries.",
       {"train --n-kv-head"}},
      {{"sliding window"},
       "Attention to the last positions only.",
       {"train --window", "train --window-pattern"}},
      {{"short convolution", "hybrid model", "LFM2"},
       "Blocks whose convolution sees few positions, in place of attention.",
       {"train --mixer-pattern", "train --conv-kernel"}},
      {{"linear attention", "gated delta net", "gated DeltaNet", "Qwen3-Next"},
       "Blocks with a state of one size, in place of attention.",
       {"train --mixer-pattern", "train --delta-heads", "train --attn-gate"}},
      {{"state space model", "SSM", "Mamba", "Mamba-2", "Granite 4", "Falcon-H1", "Nemotron-H"},
       "Blocks with a state of one size, which forgets, in place of attention.",
       {"train --mixer-pattern", "train --mamba-heads", "train --mamba-state-size"}},
      {{"RoPE", "rotary", "positional encoding", "position embedding"},
       "How positions are encoded.",
       {"train --positions", "train --rope-base", "train --rope-scaling"}},
      {{"profile", "profiler", "flame graph"},
       "Where the time of a step goes.",
       {"train --profile", "bench --ops", "bench --trace"}},
  };
  return list;
}

bool has_words(std::string_view text, std::string_view words) {
  std::string wanted = folded(words);
  while (wanted.size() > 1 && wanted.back() == ' ') wanted.pop_back();
  return wanted.size() > 1 && folded(text).find(wanted) != std::string::npos;
}

bool FieldWord::names(std::string_view program, std::string_view option) const {
  return std::any_of(options.begin(), options.end(), [&](std::string_view named) {
    const std::size_t space = named.find(' ');
    if (space == named.npos) return named == option;
    return named.substr(space + 1) == option &&
           program == fmt::format("tapegrad {}", named.substr(0, space));
  });
}

std::vector<const FieldWord*> field_words(std::string_view words) {
  std::vector<const FieldWord*> found;
  for (const FieldWord& word : all_field_words()) {
    const auto is_meant = [&](std::string_view name) { return has_words(name, words); };
    if (std::any_of(word.words.begin(), word.words.end(), is_meant)) found.push_back(&word);
  }
  return found;
}

}  // namespace tapegrad::cli
