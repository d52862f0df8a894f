#pragma once

#include <string_view>
#include <vector>

#include "tapegrad/apps/cli/training/call_arguments.h"
#include "tapegrad/apps/train/plan/train_options.h"

namespace tapegrad::gpt {

// The table of --preset.
const std::vector<cli::Preset<Options>>& presets();
// The row of that name; null if there is none, as a run of another version may name one.
const cli::Preset<Options>* preset_row(std::string_view name);
// True if it goes by a budget: it chooses a size by the time, and parts by --for.
bool is_sized(std::string_view preset);

// The weight decay of the tables of n-grams, in presets that have them.
inline constexpr const char* kNgramDecay = "ngrams*=3";

// The parts that docs/recipes.md finds to pay, with Muon at the rate for the model's width.
void set_fast_parts(Options& options);
// The same without parts that other programs lack: a Llama.
void set_exportable_parts(Options& options);

}  // namespace tapegrad::gpt
