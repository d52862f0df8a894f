#include "tapegrad/apps/seq2seq/seq2seq_options.h"

#include <filesystem>

namespace tapegrad::apps {
namespace {

// The base model of Vaswani et al. (2017, section 6.2, table 3), with batches for a CPU.
Seq2SeqOptions base() {
  Seq2SeqOptions o;
  o.tokenizer = "bpe:8000";
  o.n_layer = 6, o.n_head = 8, o.n_embd = 512, o.n_hidden = 2048;
  o.dropout = 0.1;
  o.batch_size = 32, o.max_iters = 100000;
  o.learning_rate = 7e-4, o.min_lr = 1e-5, o.warmup_iters = 4000, o.beta2 = 0.98;
  return o;
}

const Presets<Seq2SeqOptions>& seq2seq_presets() {
  static const Presets<Seq2SeqOptions> list = [] {
    Presets<Seq2SeqOptions> presets = {
        {"dates", "about five minutes on two cores, on dates that the program makes", {}},
        {"base", "the base model of \"Attention Is All You Need\", for a --corpus: days on a CPU",
         base()},
    };
    for (auto& preset : presets) preset.options.preset = preset.name;
    return presets;
  }();
  return list;
}

void describe_program(CommandLine& cli) {
  cli.example("train-seq2seq", "learns to write dates and times as ISO 8601");
  cli.example("train-seq2seq --corpus pairs.tsv --out-dir runs/pairs",
              "learns from a file whose lines are a source, a tab and a target");
  cli.example("train-seq2seq --init-from resume --out-dir runs/pairs --max-iters 6000",
              "goes on where that run stopped, up to 6,000 steps in all");
}

}  // namespace

template <class Options, class Visitor>
void Seq2SeqOptions::visit(Options& o, Visitor&& v) {
  visit_run(o, v);
  v.flag("--sample", o.sample, "print some held-out pairs with their translations at the end",
         true);

  v.group("Text", Lasting::model);
  v.choice("--preset", o.preset, names_of(seq2seq_presets()),
           "what all other options start from; see below");
  v("--corpus", o.corpus, "FILE", "pairs: source, tab, target [dates that the program makes]");
  v("--tokenizer", o.tokenizer, "KIND", "of both sides: char, gpt2, or bpe:N with N tokens");
  v("--held-out", o.held_out, "N", "pairs to test with [a tenth of them, 2000 at most]", 1);

  v.group("Model", Lasting::model);
  v("--n-layer", o.n_layer, "N", "layers of the encoder, and of the decoder", 1);
  v("--n-head", o.n_head, "N", "attention heads per layer", 1);
  v("--n-embd", o.n_embd, "N", "channels", 1);
  v("--n-hidden", o.n_hidden, "N", "channels inside the feed-forward layers", 1);
  v("--block-size", o.block_size, "N", "the longest source or target, in tokens", 2);
  v("--dropout", o.dropout, "P", "share of activations that is dropped", 0);
  v.flag("--scale-embeddings", o.scale_embeddings, "embeddings count sqrt(n_embd) times", true);
  visit_randomness(o, v);

  visit_training(o, v);
}

Seq2SeqOptions::Seq2SeqOptions() {
  format = seq2seq_format;
  tokenizer = "bpe:1000";
  batch_size = 64, max_iters = 4000;
  learning_rate = 1e-3, min_lr = 1e-5, warmup_iters = 200;
  weight_decay = 0.01, beta2 = 0.98;
  eval_interval = 500, eval_iters = 4;
}

nn::TransformerConfig Seq2SeqOptions::model_config(int64_t vocab_size) const {
  return {.vocab_size = vocab_size,
          .block_size = block_size,
          .n_layer = n_layer,
          .n_head = n_head,
          .n_embd = n_embd,
          .n_hidden = n_hidden,
          .dropout = dropout,
          .scale_embeddings = scale_embeddings};
}

void Seq2SeqOptions::check_values() const {
  RunOptions::check_values();
  model_config(256).validate();
  check(corpus.size() <= 1, "--corpus takes one file of pairs, not {}", corpus.size());
  check(corpus.empty() || !std::filesystem::is_directory(corpus.front()),
        "--corpus: {} is a folder; a file of pairs is needed",
        corpus.empty() ? "" : corpus.front());
}

std::optional<Seq2SeqOptions> parse_seq2seq_options(int argc, const char* const* argv) {
  CommandLine cli("train-seq2seq",
                  "Trains an encoder-decoder Transformer on pairs of texts, and keeps it in a run "
                  "folder.");
  describe_program(cli);
  return parse_run_options<Seq2SeqOptions>(cli, seq2seq_presets(), argc, argv);
}

Json json_of_options(const Seq2SeqOptions& options) { return options_to_json(options); }

}  // namespace tapegrad::apps
