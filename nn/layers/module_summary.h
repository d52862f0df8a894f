#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/autograd/formats/safetensors.h"

namespace tapegrad::nn {

// A part of a model: the tensors whose names have all but their last part in common, as
// "layers.0.weight" and "layers.0.bias".
struct ModulePart {
  std::string name;             // "layers.0"; a name of one part is a part of its own
  std::vector<Shape> shapes;    // of its tensors
  std::int64_t parameters = 0;  // elements that are trained
  std::int64_t fixed = 0;       // elements that are not: of frozen parameters and of buffers
  std::optional<Shape> output = {};
};

// The parts of a model of one's own, in the order of their first tensors. Decoders have more in
// summary.h.
struct ModuleSummary {
  std::vector<ModulePart> parts;
  double bytes = 0;  // of all tensors

  std::int64_t parameters() const;
  std::int64_t fixed() const;
  // A table by part, and the totals.
  std::string str() const;
};

// The summary of these tensors, such as nn::Params::tensors(); matrices that are quantised are
// none. A `forward` that calls the model on an example finds the outputs:
//
//   const nn::ModuleSummary s = nn::module_summary(params.tensors(), [&] { model(x); });
//   fmt::print("{}", s.str());
//
// It runs in a dry run (dry_run.h): nothing is computed, no buffer changes, and what follows from
// numbers, as the shape of masked_select's result, is invalid. Each trained tensor of a part has an
// op in which it meets other data first, transposed or not; the output of the part is the result of
// the last of these ops. So a layer that runs twice has the output of its first run, and a tied
// embedding that of an embedding; of an RNN or a GRU, it is that of its op, (T, B, H), and of an
// LSTM (T + 1, B, H), with c. A part that is frozen, not used, or inside of checkpoint() has none.
ModuleSummary module_summary(const NamedTensors& tensors,
                             const std::function<void()>& forward = {});

}  // namespace tapegrad::nn
