#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tapegrad/apps/train/plan/init_from.h"
#include "tapegrad/apps/train/plan/plan.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/objectives/internal/decoder_training.h"
#include "tapegrad/run/train/train.h"

namespace tapegrad::gpt {

// The task of train-gpt: corpus → tokenizer → batches → GPT → loss. run::train() trains it.
class Program {
 public:
  // Error if a run that is resumed cannot be read, or the machine is too small. The folder must
  // live as long as this.
  Program(Plan plan, run::RunFolder& folder, run::Text text, run::TextData data);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  run::Task task();  // which refers to this

 private:
  void after_step(run::Report& report, bool made) const;
  bool prints_text(std::int64_t step, bool made) const {  // in after_step()
    return shows_sample(step) || shows_continuation(made);
  }
  void finish(run::Report& report) const;
  void save_adapters(run::Report& report) const;
  run::TextStream continuation(std::vector<nn::Tokens> prompts, nn::GenerateOptions options) const;
  void print_samples(run::Report& report) const;
  void print_answers(run::Report& report, bool recorded) const;
  bool shows_sample(std::int64_t step) const;
  void print_sample(run::Report& report) const;
  bool shows_continuation(bool made) const;
  void print_continuation(run::Report& report) const;
  bool continues_prompt() const { return !plan_.epochs.sample_prompt.empty(); }
  run::SideCosts side_costs() const;
  run::RunHeader about() const;
  run::HeaderLine about_text() const;

  const Plan plan_;
  run::RunFolder& folder_;
  run::Text text_;
  run::TextData data_;
  run::ModelSettings settings_;
  nn::Tokens prompt_;           // of --sample-prompt, or the default one
  run::MemoryEstimate memory_;  // of each process
  Rng rng_;
  nn::Params params_;
  nn::Decoder gpt_;
  const std::unique_ptr<const run::DecoderObjective> objective_;
  std::optional<nn::Decoder> second_;  // its reference or teacher
  run::Batches batches_;
  Rng own_dropout_;
  const std::shared_ptr<run::DecoderTraining> training_;
};

}  // namespace tapegrad::gpt
