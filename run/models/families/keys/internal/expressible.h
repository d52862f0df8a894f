#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// What files with a family's keys can say of a config, and what of it they cannot.

// Options of a config that files with these keys have, or need not have; "tied" only where it has
// a key.
std::set<std::string_view> options_of(const Family& family, const std::vector<FamilyKey>& keys,
                                      const nn::DecoderConfig& config);

// The model of the family that comes nearest to a config: with those of its options that are
// `free`.
nn::DecoderConfig model_with(const Family& family, const nn::DecoderConfig& config,
                             const std::set<std::string_view>& free);

// An option of a config, as the model has it, beside the value that it would have to have.
struct OptionDifference {
  std::string option, value, only;
};
// The options whose values differ from `only`. Ignores those in `free`, defaults, and options that
// have no effect in the model.
std::vector<OptionDifference> differences_of(const nn::DecoderConfig& config,
                                             nn::DecoderConfig only,
                                             const std::set<std::string_view>& free);
// Refuses the first difference: "GGUF cannot express a model with rope true, only with false", and
// the reason for the option, if there is one.
using Reasons = std::vector<std::pair<std::string_view, std::string_view>>;
void require_expressible(std::string_view format, const nn::DecoderConfig& config,
                         const nn::DecoderConfig& only, const std::set<std::string_view>& free,
                         const Reasons& reasons = {});

// The same for dense blocks, if a family with these keys has them before all others.
void require_leading_dense(std::string_view format, const std::vector<FamilyKey>& keys,
                           const nn::DecoderConfig& config);

// The same model with a base of its own for the positions of blocks with the window, where files of
// the family always have one. Error if it would not be the same.
nn::DecoderConfig with_window_base(std::string_view format, const Family& family,
                                   nn::DecoderConfig config);

}  // namespace tapegrad::run
