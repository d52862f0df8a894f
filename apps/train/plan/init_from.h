#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/train/plan/plan.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/record/header_lines.h"

namespace tapegrad::gpt {

// --init-from PATH: a run that starts with the weights and the tokenizer of another one.

// The tokenizer of the model that the run resumes or starts from; nothing for a new one.
std::optional<data::Tokenizer> given_tokenizer(const run::FolderOptions& folder,
                                               const OpenedModels& models);
// Its settings, for a model that sees block_size tokens.
run::ModelSettings given_settings(const run::FolderOptions& folder, const OpenedModels& models,
                                  std::int64_t block_size);

// Error if a pattern of the options names nothing that the model has. Reads no weights.
void check_patterns(const Options& options);

// The part of a plan that says where weights come from.
struct WeightPlan {
  run::FolderOptions folder;
  run::TuningOptions tuning;
  nn::DecoderConfig model;
  Precision precision;
  OpenedModels models;
  bool copies_start;  // see Options
};
WeightPlan weight_plan(const Plan& plan);

// The model that the run starts from, its weights with the first block_size positions. Errors as in
// run::load(). A model that is made of them must be checked by check_initial_params().
nn::Params initial_params(const WeightPlan& plan);
// The model of a run with --weights, quantised. With its adapters: those of the file that it begins
// with, if it begins with some, or those of the run in `folder`, which is resumed. Without: such a
// model as new ones are made for.
enum class FirstAdapters { left_out, given };
nn::Params quantized_params(const WeightPlan& plan, FirstAdapters adapters,
                            const run::RunFolder* folder = nullptr);
// The weights that the run started from, as the file has them, in a store of their own. Of a run
// that is resumed, that model is opened again, as it was when the run began.
nn::Params start_params(const WeightPlan& plan);
// Of a run that keeps adapters alone, or runs beside the model that it started from: a text that
// tells whether that model is still the same. Reads its weights. Error if it is not. Nothing for
// others.
std::optional<std::string> fingerprint_of_base(const WeightPlan& plan);
// Error if a weight is not finite: no run can start from it.
void check_initial_params(const WeightPlan& plan, const nn::Params& params);

// The header's lines: the start of the run, and the parameters that it trains.
std::vector<run::HeaderLine> about_tuning(const WeightPlan& plan, const nn::Params& params);

}  // namespace tapegrad::gpt
