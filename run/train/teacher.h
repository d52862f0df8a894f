#pragma once

#include <string>

#include "tapegrad/base/option_schema.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/losses/distillation.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::run {

// Learning from another model beside a text (distillation).
struct TeacherOptions {
  std::string teacher = {};  // a path that open_model() opens; empty: there is none
  double weight = nn::DistillationOptions().weight;
  double temperature = nn::DistillationOptions().temperature;
  std::string base = {};  // the fingerprint of its weights

  nn::DistillationOptions distillation() const { return {weight, temperature}; }

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("teacher", o.teacher,
      "a model with the same tokenizer, whose probabilities are learnt beside the text "
      "(distillation): a run folder, or a model of another program",
      {.value = "PATH", .lasting = Lasting::run, .newer = true});
    t("teacher_weight", o.weight,
      "share of --teacher in the loss, from 0 to 1; the rest is the text's own",
      {.least = 0, .most = 1, .newer = true});
    t("teacher_temperature", o.temperature,
      "number that the logits of both models are divided by where they are compared",
      {.least = 1e-3, .most = 1e3, .newer = true});
    t("teacher_base", o.base, "the fingerprint of its weights", {.option = false, .newer = true});
  }
};

// A teacher's weights, as short as its file has them. In a dry run, they are not read.
nn::Params teacher_params(const OpenedModel& teacher, Precision precision);

// Error, naming both, unless a teacher has the tokens of the model that learns from it, and sees as
// many of them at once as its sequences have.
void check_teacher(const OpenedModel& teacher, const std::string& path,
                   const data::Tokenizer& tokenizer, std::int64_t vocab_size,
                   std::int64_t block_size);

}  // namespace tapegrad::run
