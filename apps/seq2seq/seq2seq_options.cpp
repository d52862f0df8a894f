#include "tapegrad/apps/seq2seq/seq2seq_options.h"

#include <filesystem>

#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::seq2seq {
namespace {

Options dates() {
  Options o;
  o.model.block_size = 128, o.model.scale_embeddings = true;
  run::OptimizerOptions& a = o.optimizer;
  a.batch_size = 64, a.max_iters = 4000;
  a.learning_rate = 1e-3, a.min_lr = 1e-5, a.most_warmup = 200;
  a.rules.weight_decay = 0.01, a.rules.settings.set("beta2", 0.98);
  o.evaluation.eval_interval = 500, o.evaluation.eval_iters = 4;
  return o;
}

// The base model of Vaswani et al. (2017, section 6.2, table 3), with batches for a CPU.
Options base() {
  Options o = dates();
  o.text.tokenizer = "bpe:8000";
  nn::TransformerConfig& m = o.model;
  m.n_layer = 6, m.n_head = 8, m.n_embd = 512, m.n_hidden = 2048;
  m.dropout = 0.1;
  run::OptimizerOptions& a = o.optimizer;
  a.batch_size = 32, a.max_iters = 100000;
  a.learning_rate = 7e-4, a.min_lr = 1e-5, a.most_warmup = 4000,
  a.rules.settings.set("beta2", 0.98);
  return o;
}

}  // namespace

void Options::validate() const {
  run::check_tokenizer(text.tokenizer);
  check_rules(*this);
  optimizer.validate();
  evaluation.validate();
  model.validate();
  check(model.block_size >= 2, "--block-size must be at least 2, not {}", model.block_size);
  check(text.corpus.size() <= 1, "--corpus takes one file of pairs, not {}", text.corpus.size());
  check(text.corpus.empty() || text.corpus.front() != "-",
        "--corpus: pairs are read from a file, and not from stdin");
  std::error_code unknown;  // reading says then what is wrong, which no option is
  check(text.corpus.empty() || !std::filesystem::is_directory(text.corpus.front(), unknown),
        "--corpus: {} is a folder; a file of pairs is needed",
        text.corpus.empty() ? "" : text.corpus.front());
}

const std::vector<cli::Preset<Options>>& presets() {
  static const std::vector<cli::Preset<Options>> list = {
      {"dates", "about five minutes on two cores, on dates that the program makes", dates()},
      {"base", "the base model of \"Attention Is All You Need\", for a --corpus: days on a CPU",
       base()},
  };
  return list;
}

}  // namespace tapegrad::seq2seq
