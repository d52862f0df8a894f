#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"

namespace tapegrad::evaluation {

// A model that predictions of a text are compared with.
struct Reference {
  std::string key;                      // in JSON
  std::string title;                    // with what the comparison says
  std::optional<run::TextModel> model;  // none: the same one, with keys and values in f32
};
using References = std::vector<Reference>;

struct ReferenceOptions {
  std::string model, weights;  // of the model that is evaluated
  CacheType cache = CacheType::f32;
  bool beside_f32 = false;
  std::optional<std::string> against;
};

// The models that these options name. Error, naming both, unless another model has the same tokens
// and sees `block_size` of them at once.
References references_of(const ReferenceOptions& o, const run::OpenedModel& model,
                         std::int64_t block_size);
// A line for each.
std::string comparison_lines(const References& references, const run::TextLoss& here);
// Adds a member for each.
void add_comparisons(Json& json, const ReferenceOptions& o, const References& references,
                     const run::TextLoss& here);

}  // namespace tapegrad::evaluation
