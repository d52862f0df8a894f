#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/plan/memory_estimate.h"
#include "tapegrad/run/record/header_lines.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/run/train/objective.h"
#include "tapegrad/run/train/preferences.h"
#include "tapegrad/run/train/teacher.h"

namespace tapegrad::run {

// The model that is trained, and the one beside it, a reference or a teacher. Null: there is none.
// A loss notes in `routers` those of the trained model's routers.
struct DecoderModels {
  const nn::Decoder& trained;
  const nn::Decoder* second = nullptr;
  nn::RouterLosses* routers = nullptr;
};

// The first batches of each part of the data: see estimate_losses().
struct EvaluationBatches {
  const TextData& data;
  const BatchPlan& plan;
  std::int64_t batches;
  const RandomOptions& random;
  Rng& training_rng;
  Processes* processes = nullptr;
};

// The loss over a whole part of the data: a line for people, and its numbers for metrics.jsonl.
struct FinalLoss {
  std::string text;
  RunFolder::Metrics numbers;
};

// What a decoder learns. An objective serves the steps, the evaluations, the estimate of memory and
// the steps that --plan measures. Each kind is a file of this folder.
class DecoderObjective {
 public:
  virtual ~DecoderObjective() = default;

  // Of its data, for the header: "text".
  virtual std::string_view name() const = 0;
  // The header's other lines.
  virtual std::vector<HeaderLine> about() const { return {}; }
  virtual std::vector<std::string> metrics() const { return {}; }  // see Objective

  // The model beside the trained one that has weights of its own; nothing: there is none.
  virtual std::optional<MemoryOptions::SecondModel> second_model() const { return {}; }
  // That model, or a view of the trained one that stands for it.
  virtual std::optional<nn::Decoder> make_second(const nn::Decoder& trained) const;

  virtual Loss loss(const DecoderModels& models, const data::Batch& batch, Rng* dropout) const;
  // The same of tokens (B, T) that fill their rows: random ones, or in a dry run those whose values
  // nobody reads.
  virtual Tensor loss_of_rows(const DecoderModels& models, const nn::TokenRows& inputs,
                              const Tensor& targets, Rng* dropout) const = 0;
  // Nothing if a signal interrupts it.
  virtual std::optional<Losses> evaluate(const DecoderModels& models,
                                         const EvaluationBatches& batches) const;
  // Over the validation part; nothing if a signal leaves no batch of it.
  virtual std::optional<FinalLoss> evaluate_all(const DecoderModels& models, const TextData& data,
                                                const WindowOptions& windows) const = 0;
};

std::unique_ptr<const DecoderObjective> text_objective();
// Of conversations, of which the answers count.
std::unique_ptr<const DecoderObjective> chat_objective();
// Of pairs of answers. `reference` has weights of its own; without it, the reference is the trained
// model without its adapters, if the loss has one.
std::unique_ptr<const DecoderObjective> pair_objective(
    const PreferenceOptions& options, std::optional<MemoryOptions::SecondModel> reference);
// A teacher's probabilities beside what `data` learns.
std::unique_ptr<const DecoderObjective> teacher_objective(
    std::unique_ptr<const DecoderObjective> data, const TeacherOptions& options,
    std::shared_ptr<const OpenedModel> teacher, Precision precision);

// "whole split", or the share of it that an evaluation has seen.
std::string seen_text(double share);
FinalLoss final_loss(const TextLoss& loss);

}  // namespace tapegrad::run
