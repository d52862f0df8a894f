#pragma once

#include <optional>

#include "tapegrad/apps/cli/option_table.h"
#include "tapegrad/run/model_folder.h"
#include "tapegrad/run/run_options.h"

namespace tapegrad::apps {

// What train-seq2seq can be told. The values here are those of the preset dates.
struct Seq2SeqOptions : RunOptions {
  Seq2SeqOptions();

  std::optional<int64_t> held_out;  // a tenth of the pairs, 2,000 at most
  bool sample = true;

  int n_layer = 2, n_head = 4;
  int64_t n_embd = 128, n_hidden = 512, block_size = 128;
  double dropout = 0;
  bool scale_embeddings = true;

  nn::TransformerConfig model_config(int64_t vocab_size) const;
  void check_values() const;
  template <class Options, class Visitor>
  static void visit(Options& o, Visitor&& v);  // the table: see option_table.h
};

// See parse_run_options.
std::optional<Seq2SeqOptions> parse_seq2seq_options(int argc, const char* const* argv);

// For config.json: how the run was set up, without where it lies and how it was called.
Json json_of_options(const Seq2SeqOptions& options);

}  // namespace tapegrad::apps
