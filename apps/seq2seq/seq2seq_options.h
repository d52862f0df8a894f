#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/nn/transformer.h"

namespace tapegrad::seq2seq {

// Which pairs are learnt.
struct PairOptions {
  std::string preset;
  std::vector<std::string> corpus;  // one file, or none: the pairs that the program makes
  std::string tokenizer = "bpe:1000";
  std::optional<std::int64_t> held_out = {};  // [a tenth of the pairs, 2,000 at most]

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("preset", o.preset, "what all options started from", {.option = false});
    t("corpus", o.corpus, "pairs: source, tab, target [dates that the program makes]",
      {.value = "FILE", .lasting = Lasting::run});
    t("tokenizer", o.tokenizer, "tokenizer of both sides: char, gpt2, or bpe:N with N tokens",
      {.value = "KIND"});
    t("held_out", o.held_out, "pairs to test with [a tenth of them, 2000 at most]", {.least = 1});
  }
};

// The options of train-seq2seq.
struct Options {
  cli::CallOptions call;
  PairOptions text;
  nn::TransformerConfig model;
  run::RandomOptions random;
  run::OptimizerOptions optimizer;
  run::EvaluationOptions evaluation;

  void validate() const;

  // The options that name texts, and their paths.
  template <class Self>
  static auto texts(Self& o) {
    using Texts = std::vector<std::pair<const char*, decltype(&o.text.corpus)>>;
    return Texts{{"--corpus", &o.text.corpus}};
  }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t.section("call", "Run", Lasting::call, o.call);
    t.section("data", "Text", Lasting::model, o.text);
    t.section("model", "Model", Lasting::model, o.model);
    t.section("random", "Model", Lasting::model, o.random);
    t.section("optimizer", "Optimisation", Lasting::run, o.optimizer);
    t.section("evaluation", "Evaluation and output", Lasting::run, o.evaluation);
  }
};

const std::vector<cli::Preset<Options>>& presets();

}  // namespace tapegrad::seq2seq
