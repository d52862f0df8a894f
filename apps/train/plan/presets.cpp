#include "tapegrad/apps/train/plan/presets.h"

#include "tapegrad/apps/train/plan/fast.h"

namespace tapegrad::gpt {
namespace {

using Kind = optim::Schedule::Kind;

// The length of sequences, for training and for the model that is made.
void set_block_size(Options& o, std::int64_t tokens) {
  o.text.block_size = o.model.block_size = tokens;
}

// nanoGPT's recipe for a laptop. It does not tie the head: with so few tokens, tying saves 1 % of
// the parameters and costs 0.03 in loss.
Options char_cpu() {
  Options o;
  nn::DecoderConfig& m = o.model;
  m.n_layer = 4, m.n_head = 4, m.n_embd = 128;
  set_block_size(o, 64);
  m.bias = m.tied = false;
  return o;
}

// Made for tiny shakespeare, which is part of the program.
Options quickstart() {
  Options o = char_cpu();
  o.call.max_minutes = 2;
  return o;
}

// What docs/recipes.md finds for tiny shakespeare in char-cpu's time: a small model, many steps.
Options char_fast() {
  Options o;
  o.model.n_layer = 4, o.model.n_head = 2, o.model.n_embd = 64;
  set_block_size(o, 256);
  set_fast_parts(o);
  o.optimizer.batch_size = 6, o.optimizer.max_iters = 1900;
  return o;
}

// nanoGPT's config/train_shakespeare_char.py.
Options char_gpu() {
  Options o = char_cpu();
  nn::DecoderConfig& m = o.model;
  m.n_layer = 6, m.n_head = 6, m.n_embd = 384;
  set_block_size(o, 256);
  m.dropout = 0.2, m.tied = true;
  o.optimizer.batch_size = 64, o.optimizer.max_iters = 5000;
  o.evaluation.eval_iters = 200;
  return o;
}

// GPT-2 small (Radford et al. 2019), which is what DecoderConfig starts with, with the optimiser
// settings of nanoGPT's config/train_gpt2.py, and batches that a CPU gets through. Sequences are
// 256 tokens long, not 1,024.
Options gpt2_124m() {
  Options o;
  o.text.tokenizer = "gpt2";
  set_block_size(o, 256);
  run::OptimizerOptions& a = o.optimizer;
  a.batch_size = 4, a.max_iters = 1000;
  a.learning_rate = 6e-4, a.min_lr = 6e-5, a.most_warmup = 50;
  a.rules.settings.set("beta2", 0.95);
  a.dtype = run::TrainDtype::automatic;
  o.evaluation.eval_iters = 5, o.evaluation.log_interval = 1;
  return o;
}

// char-cpu with Llama's architecture, and two heads of queries to each of keys.
Options llama_char() {
  Options o = char_cpu();
  o.model.arch = nn::Architecture::llama;
  o.model.bias = std::nullopt;
  o.model.n_kv_head = 2;
  return o;
}

// The shape of SmolLM2-135M (Ben Allal et al., "SmolLM2", 2025), trained as gpt2-124m. Its own
// tokenizer is a file: --tokenizer PATH.
Options smollm2_135m() {
  Options o = gpt2_124m();
  nn::DecoderConfig& m = o.model;
  m.arch = nn::Architecture::llama;
  m.n_layer = 30, m.n_head = 9, m.n_kv_head = 3, m.n_embd = 576, m.n_inner = 1536;
  m.rope_base = 100000;
  return o;
}

// Chapter 5 of S. Raschka, "Build a Large Language Model (From Scratch)" (2024): its model, its
// loaders, its optimiser, and its evaluation after steps 1, 6, 11, … and so on. With --rng torch
// and seed 123, its numbers.
Options book_124m() {
  Options o;
  o.text.tokenizer = "gpt2";
  o.text.batches = run::BatchKind::epochs, o.text.stride = 256;
  nn::DecoderConfig& m = o.model;
  set_block_size(o, 256);
  m.dropout = 0.1;
  m.qkv_bias = false, m.separate_qkv = true, m.tied = false;
  o.init.init = FirstWeights::torch;
  run::OptimizerOptions& a = o.optimizer;
  a.batch_size = 2;
  a.learning_rate = 5e-4, a.schedule = Kind::constant, a.most_warmup = 0;
  a.rules.settings.set("beta2", 0.999), a.rules.decay_all = true, a.grad_clip = 0;
  run::EvaluationOptions& e = o.evaluation;
  e.eval_interval = 5, e.eval_offset = 1, e.eval_iters = 1, e.log_interval = 1;
  e.checkpoint_interval = 45;
  o.epochs.epochs = 10, o.epochs.sample_prompt = "Every effort moves you";
  o.call.sample = false;
  return o;
}

void set_muon(Options& o) {
  run::OptimizerOptions& a = o.optimizer;
  a.rules.optimizer = optim::optimizer_named("muon");
  a.learning_rate = fast_rate(o.model.n_embd);
  a.min_lr = 0;
}

}  // namespace

void set_fast_parts(Options& o) {
  nn::DecoderConfig& m = o.model;
  m.positions = nn::Positions::rotary, m.activation = nn::Activation::relu2;
  m.bias = m.tied = false;
  m.qk_norm = m.residual_scalars = true;
  m.ngrams = 3;
  set_muon(o);
  o.optimizer.rules.decay = {kNgramDecay};
}

void set_exportable_parts(Options& o) {
  o.model.arch = nn::Architecture::llama;
  o.model.tied = false;
  set_muon(o);
}

const std::vector<cli::Preset<Options>>& presets() {
  static const std::vector<cli::Preset<Options>> list = {
      {"quickstart", "two minutes, on tiny shakespeare", quickstart()},
      {"char-fast", "as long as char-cpu, to a lower loss: newer parts, and Muon", char_fast()},
      {"fast", "newer parts at the size that goes by --max-minutes and the text's length",
       fast_options(Budget{}), sized_by_budget, kMostEpochs},
      {"char-cpu", "nanoGPT's recipe for a laptop, 0.8 M parameters", char_cpu()},
      {"char", "nanoGPT's shakespeare_char, 10.7 M parameters: hours on a CPU", char_gpu()},
      {"gpt2-124m", "GPT-2's smallest model, on sequences of 256 tokens", gpt2_124m()},
      {"llama-char", "the laptop's recipe with Llama's architecture", llama_char()},
      {"smollm2-135m", "the shape of SmolLM2-135M, on sequences of 256 tokens", smollm2_135m()},
      {"book-124m", "the book's training of that model, on a short story", book_124m()},
  };
  return list;
}

const cli::Preset<Options>* preset_row(std::string_view name) {
  return cli::find_preset(std::span<const cli::Preset<Options>>(presets()), name);
}

bool is_sized(std::string_view preset) {
  const cli::Preset<Options>* const row = preset_row(preset);
  return row != nullptr && row->sized != nullptr;
}

}  // namespace tapegrad::gpt
