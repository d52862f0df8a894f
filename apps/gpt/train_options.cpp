#include "tapegrad/apps/gpt/train_options.h"

#include "tapegrad/apps/cli/option_table.h"
#include "tapegrad/apps/gpt/presets.h"

namespace tapegrad::apps {

template <class Options, class Visitor>
void TrainOptions::visit(Options& o, Visitor&& v) {
  visit_run(o, v);
  v.flag("--sample", o.sample, "print a sample at the end", true);
  v.flag("--summary", o.summary, "print the model's layers with their sizes, and do not train");
  v.flag("--plan", o.plan, "print memory by kind and measure the time of a step, and do not train");
  v.flag("--recompute", o.recompute,
         "keep each block's input only, and run it again for its gradient: less memory, more time");

  v.group("Text", Lasting::model);
  v.choice("--preset", o.preset, names_of(presets()),
           "what all other options start from; see below");
  v("--corpus", o.corpus, "PATH…", "files and folders of text [the program's own sources]");
  v("--tokenizer", o.tokenizer, "KIND", "char, gpt2, or bpe:N with N tokens");
  v.choice("--batches", o.batches, {"random", "epochs"},
           "random windows, or shuffled passes over windows side by side");
  v("--stride", o.stride, "N", "tokens from one window of a pass to the next [--block-size]", 1);

  v.group("Model", Lasting::model);
  v("--n-layer", o.n_layer, "N", "blocks", 1);
  v("--n-head", o.n_head, "N", "attention heads per block", 1);
  v("--n-embd", o.n_embd, "N", "channels", 1);
  v("--block-size", o.block_size, "N", "the longest sequence, in tokens", 1);
  v("--dropout", o.dropout, "P", "share of activations that is dropped", 0);
  v.flag("--ff-dropout", o.ff_dropout, "dropout also between the feed-forward's two linears", true);
  v.flag("--attn-out-dropout", o.attn_out_dropout, "dropout also after each attention's projection",
         true);
  v("--n-inner", o.n_inner, "N", "channels inside the feed-forward layer [4 x --n-embd]", 1);
  v.flag("--bias", o.bias, "biases in linear layers and layer norms", true);
  v.flag("--qkv-bias", o.qkv_bias, "biases of the Q, K, V projection; as --bias unless given",
         true);
  v.flag("--tied", o.tied, "the head shares the token embedding", true);
  v.flag("--separate-qkv", o.separate_qkv, "a projection each for Q, K and V, drawn one by one",
         true);
  v.flag("--rope", o.rope, "rotary positions in place of learned ones", true);
  v.flag("--unbiased-norm", o.unbiased_norm, "layer norms with the unbiased variance", true);
  v.choice("--activation", o.activation, {"gelu", "gelu-erf", "relu"}, "of the feed-forward layer");
  v.choice("--init", o.init, {"gpt2", "torch"},
           "the first weights: nanoGPT's N(0, 0.02), or those of PyTorch's layers");
  visit_randomness(o, v);

  visit_training(o, v);
  v("--epochs", o.epochs, "N", "passes over the text, in place of --max-iters", 1);
  v("--sample-prompt", o.sample_prompt, "TEXT", "go on from TEXT, greedily, after each pass");
}

namespace {

void describe_program(CommandLine& cli) {
  cli.example("train-gpt", "two minutes on the program's own sources, then a sample");
  cli.example("train-gpt --preset char-cpu --corpus shakespeare.txt", "nanoGPT's laptop recipe");
  cli.example("train-gpt --corpus notes/ --tokenizer bpe:2000 --out-dir runs/notes",
              "all text files below a folder, with 2,000 tokens learnt from them");
  cli.example("train-gpt --preset gpt2-124m --block-size 1024 --summary",
              "GPT-2's layers, their parameters and FLOPs");
  cli.example("train-gpt --preset gpt2-124m --batch-size 16 --plan",
              "whether that fits, and how long it would take");
  cli.example("train-gpt --init-from resume --out-dir runs/notes --max-iters 4000",
              "goes on where that run stopped, up to 4,000 steps in all");
}

}  // namespace

nn::GPTConfig TrainOptions::model_config(int64_t vocab_size) const {
  return {.vocab_size = vocab_size,
          .block_size = block_size,
          .n_layer = n_layer,
          .n_head = n_head,
          .n_embd = n_embd,
          .dropout = dropout,
          .bias = bias,
          .qkv_bias = qkv_bias,
          .tied = tied,
          .activation = enum_of<nn::Activation>(activation).value(),
          .separate_qkv = separate_qkv,
          .rope = rope,
          .unbiased_norm = unbiased_norm,
          .ff_dropout = ff_dropout,
          .attn_out_dropout = attn_out_dropout,
          .n_inner = n_inner};
}

void TrainOptions::check_values() const {
  RunOptions::check_values();
  model_config(256).validate();
  check(in_passes() || !stride, "--stride needs --batches epochs");
  check(in_passes() || !epochs, "--epochs needs --batches epochs");
  check(in_passes() || sample_prompt.empty(), "--sample-prompt needs --batches epochs");
  check(epochs.value_or(1) <= 1 << 20, "--epochs must be at most {}", 1 << 20);
}

void TrainOptions::settle() {
  if (!epochs) RunOptions::settle();
}

void TrainOptions::settle_epochs(int64_t batches_per_epoch) {
  if (!epochs) return;
  const int64_t batches = *epochs * batches_per_epoch;
  max_iters = (batches + gradient_accumulation_steps - 1) / gradient_accumulation_steps;
  epochs.reset();
  RunOptions::settle();
}

std::optional<TrainOptions> parse_train_options(int argc, const char* const* argv) {
  CommandLine cli("train-gpt", "Trains a GPT on text and keeps it in a run folder.");
  describe_program(cli);
  return parse_run_options<TrainOptions>(cli, presets(), argc, argv, [&](TrainOptions& o) {
    if (cli.given("--bias") && !cli.given("--qkv-bias")) o.qkv_bias = o.bias;
    if (cli.given("--epochs") && cli.given("--max-iters")) {
      usage_error("--epochs and --max-iters exclude each other");
    }
    if (cli.given("--max-iters")) o.epochs.reset();
  });
}

Json json_of_options(const TrainOptions& options) { return options_to_json(options); }

}  // namespace tapegrad::apps
