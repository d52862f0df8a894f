#pragma once

#include <optional>

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/apps/train/plan/train_options.h"

namespace tapegrad::gpt {

// The facts that a preset goes by which chooses a size.
struct Budget {
  double bytes = 1e6;        // of the text
  double operations = 1e13;  // of matrix products that the time allows
  Destination destination = Destination::tapegrad;
};

// The preset `fast`: tokenizer, size, batches and dropout for a budget, by the rule that
// docs/recipes.md derives from runs.
Options fast_options(const Budget& budget);

// Its rate is what the rule goes by.
inline constexpr Product kFastProduct = {1536, 768, 192};

// The same for the text and the minutes of a call, on this machine.
cli::SizedPreset<Options> sized_by_budget(const Options& asked, const cli::ProductRate& rate_of);

// It reads a text no more often: more than 18 epochs were not tried, and dropout holds off what a
// model learns by heart only so long.
inline constexpr double kMostEpochs = 20;

// Muon's learning rate for so many channels.
double fast_rate(int n_embd);

// Heads of --n-embd, if it alone was given in place of what was chosen; nothing if they would not
// fill it.
std::optional<int> fast_heads(int n_embd);

// The length of the text that the options name, by the sizes of its files: a packed file counts
// four times its size, a folder of tokens twice. Nothing for stdin, and if there are no such files,
// which whoever reads them says.
std::optional<double> text_bytes(const run::TextOptions& text);

}  // namespace tapegrad::gpt
