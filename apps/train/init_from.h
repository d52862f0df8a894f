#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/train/gpt_options.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/record/header_lines.h"

namespace tapegrad::gpt {

// --init-from PATH: a run that starts with the weights and the tokenizer of another one.

// The tokenizer of the model that the run resumes or starts from; nothing for a new one.
std::optional<data::Tokenizer> given_tokenizer(const Options& options);

// The same options with the model that the run starts from, opened: the options of the model and
// the tokenizer are those of the folder, but for dropout, which may be chosen anew. --block-size is
// the length in training, and cuts learned positions alone. UsageError for options that contradict
// them, for a block size that the model has no positions for, and for options that need --init-from
// PATH.
Options with_initial_model(const Options& given, const cli::CommandLine& cli);

// Error if a pattern of the options names nothing that the model has. Reads no weights.
void check_patterns(const Options& options);

// The settings of the model that the run resumes or starts from.
run::ModelSettings given_settings(const Options& options);

// The model that the run starts from, its weights with the first block_size positions. Errors as in
// run::load(). A model that is made of them must be checked by check_initial_params().
nn::Params initial_params(const Options& options);
// The model of a run with --weights, packed. With its adapters: those of the file that it begins
// with, if it begins with some, or those of the run in `folder`, which is resumed. Without: such a
// model as new ones are made for.
enum class FirstAdapters { left_out, given };
nn::Params quantized_params(const Options& options, FirstAdapters adapters,
                            const run::RunFolder* folder = nullptr);
// The model that a run started from, opened again, as it was when the run began.
run::OpenedModel opened_start(const Options& options);
// Of a run that keeps adapters alone, or runs beside the model that it started from: what tells
// whether that model is still the same. Reads its weights. Error if it is not. Nothing for others.
std::optional<std::string> fingerprint_of_base(const Options& options);
// Error if a weight is not finite: no run can start from it.
void check_initial_params(const Options& options, const nn::Params& params);

// The header's lines: what the run started from, and what is trained of it.
std::vector<run::HeaderLine> about_tuning(const Options& options, const nn::Params& params);

}  // namespace tapegrad::gpt
