#include "tapegrad/apps/gpt/presets.h"

namespace tapegrad::apps {
namespace {

// nanoGPT's recipe for a laptop: the values that TrainOptions starts with. It does not tie the
// head: with so few tokens, tying saves 1 % of the parameters and costs 0.03 in loss.
TrainOptions char_cpu() { return {}; }

// About two minutes on two cores; made for the program's own text.
TrainOptions quickstart() {
  TrainOptions o = char_cpu();
  o.max_iters = 3000;
  return o;
}

// nanoGPT's config/train_shakespeare_char.py.
TrainOptions char_gpu() {
  TrainOptions o;
  o.n_layer = 6, o.n_head = 6, o.n_embd = 384, o.block_size = 256;
  o.dropout = 0.2, o.tied = true;
  o.batch_size = 64, o.max_iters = 5000;
  o.eval_iters = 200;
  return o;
}

// GPT-2 small (Radford et al. 2019) with the optimiser settings of nanoGPT's config/train_gpt2.py,
// and batches that a CPU gets through. Sequences are 256 tokens long, not 1,024.
TrainOptions gpt2_124m() {
  TrainOptions o;
  o.tokenizer = "gpt2";
  o.n_layer = 12, o.n_head = 12, o.n_embd = 768, o.block_size = 256;
  o.bias = o.qkv_bias = o.tied = true;
  o.batch_size = 4, o.max_iters = 1000;
  o.learning_rate = 6e-4, o.min_lr = 6e-5, o.warmup_iters = 50;
  o.beta2 = 0.95;
  o.eval_iters = 5, o.log_interval = 1;
  return o;
}

// Chapter 5 of S. Raschka, "Build a Large Language Model (From Scratch)" (2024): its model, its
// loaders, its optimiser, and its evaluation after steps 1, 6, 11, … and so on. With --rng torch
// and seed 123, its numbers.
TrainOptions book_124m() {
  TrainOptions o;
  o.tokenizer = "gpt2";
  o.n_layer = 12, o.n_head = 12, o.n_embd = 768, o.block_size = 256;
  o.bias = true, o.qkv_bias = false, o.separate_qkv = true, o.tied = false;
  o.dropout = 0.1, o.init = "torch";
  o.batches = "epochs", o.stride = 256, o.batch_size = 2, o.epochs = 10;
  o.learning_rate = 5e-4, o.schedule = "constant", o.warmup_iters = 0;
  o.beta2 = 0.999, o.decay_all = true, o.grad_clip = 0;
  o.eval_interval = 5, o.eval_offset = 1, o.eval_iters = 1, o.log_interval = 1;
  o.checkpoint_interval = 45;
  o.sample = false, o.sample_prompt = "Every effort moves you";
  return o;
}

Presets<TrainOptions> make_presets() {
  Presets<TrainOptions> list = {
      {"quickstart", "two minutes on two cores, on the program's own sources", quickstart()},
      {"char-cpu", "nanoGPT's recipe for a laptop, 0.8 M parameters", char_cpu()},
      {"char", "nanoGPT's shakespeare_char, 10.7 M parameters: hours on a CPU", char_gpu()},
      {"gpt2-124m", "GPT-2's smallest model, on sequences of 256 tokens", gpt2_124m()},
      {"book-124m", "the book's training of that model, on a short story", book_124m()},
  };
  for (auto& preset : list) preset.options.preset = preset.name;
  return list;
}

}  // namespace

const Presets<TrainOptions>& presets() {
  static const Presets<TrainOptions> list = make_presets();
  return list;
}

}  // namespace tapegrad::apps
