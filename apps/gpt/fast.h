#pragma once

#include <optional>
#include <string>

#include "tapegrad/apps/gpt/gpt_options.h"

namespace tapegrad::gpt {

// What a recipe goes by.
struct Means {
  double bytes = 1e6;   // of the text
  double flops = 2e13;  // of the model's products that the time allows
};

// The preset `fast`: tokenizer, size, batches, rates and regularisation for these means, by the
// rule that docs/recipes.md derives from runs.
Options fast_options(const Means& means);

// The same for the text that the options name, and their minutes on this machine.
Options fast_options(const Options& asked, const cli::ProductRate& rate_of);

// The length of the text that the options name, by the sizes of its files: packed ones are taken
// for a fourth of what they hold, and folders of tokens for half of it. Nothing for stdin, and for
// files that are not there, which whoever reads them says.
std::optional<double> text_bytes(const run::TextOptions& text);

}  // namespace tapegrad::gpt
