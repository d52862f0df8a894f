#pragma once

#include <optional>

#include "tapegrad/apps/gpt/gpt_options.h"

namespace tapegrad::gpt {

// What a recipe goes by.
struct Means {
  double bytes = 1e6;        // of the text
  double operations = 1e13;  // of the blocks' matrix products that the time allows
};

// The preset `fast`: tokenizer, size, batches and dropout for these means, by the rule that
// docs/recipes.md derives from runs.
Options fast_options(const Means& means);

// The same for the text and the minutes that the options have, on this machine.
Options fast_options(const Options& asked, const cli::ProductRate& rate_of);

// The length of the text that the options name, by the sizes of its files: packed ones are taken
// for a fourth of what they hold, and files of tokens for half of it. Nothing for stdin, and if
// there are no such files, which whoever reads them says.
std::optional<double> text_bytes(const run::TextOptions& text);

}  // namespace tapegrad::gpt
