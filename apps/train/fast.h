#pragma once

#include <optional>

#include "tapegrad/apps/train/gpt_options.h"

namespace tapegrad::gpt {

// What a recipe goes by.
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

// The same for the text and the minutes that the options have, on this machine.
Options fast_options(const Options& asked, const cli::ProductRate& rate_of);

// Muon's learning rate for so many channels.
double fast_rate(int n_embd);

// Heads and rate for the width of --n-embd, where it alone was given in place of what was chosen.
Options with_own_width(const Options& given, const cli::CommandLine& cli);

// The length of the text that the options name, by the sizes of its files: a packed file counts
// four times its size, a folder of tokens twice. Nothing for stdin, and if there are no such files,
// which whoever reads them says.
std::optional<double> text_bytes(const run::TextOptions& text);

}  // namespace tapegrad::gpt
