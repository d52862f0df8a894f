#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::sweep {

// An option of training whose values are tried: --vary learning-rate=1e-3..1e-2 or n-layer=4,6.
struct VariedOption {
  std::string name = {};                 // "learning-rate"
  std::vector<std::string> values = {};  // of a list; empty: it is a range
  double low = 0, high = 0;              // of a range, both included
  bool log = false;                      // its logarithms are spread evenly, and not its numbers
  bool whole = false;                    // it has whole numbers only

  bool is_list() const { return !values.empty(); }
};

enum class OptionKind { whole, real, other };
// The kind of the option of that name ("n-layer"). UsageError if there is none.
using KindOf = std::function<OptionKind(const std::string& name)>;

// "NAME=A,B,C" is a list. "NAME=LOW..HIGH" is a range of an option that is a number: of whole ones
// if the option is; spread by logarithm if both ends are positive and HIGH is ten times LOW at
// least, or if the option is a learning rate or a decay. UsageError for other texts.
VariedOption parse_varied(const std::string& text, const KindOf& kind_of);

// The values of one run, one for each varied option, as texts.
using Values = std::vector<std::string>;

// The number of combinations of lists; the largest std::size_t if there are more.
std::size_t combinations(const std::vector<VariedOption>& options);
// The first `most` combinations of lists. The last option changes fastest.
std::vector<Values> grid(const std::vector<VariedOption>& options, std::size_t most);
// Draw `index` of a random search: each option is drawn by itself. The values depend on the seed,
// the index, and the place of an option in the list alone. Numbers have four digits.
Values draw(const std::vector<VariedOption>& options, std::uint64_t seed, std::size_t index);

}  // namespace tapegrad::sweep
