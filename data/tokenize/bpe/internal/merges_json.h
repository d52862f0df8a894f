#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/bpe/bpe.h"

namespace tapegrad::data {

// One token of a merge in a file's JSON, of either type of nlohmann's.
template <class AnyJson>
Token token_of_json(const AnyJson& value) {
  check(value.is_number_integer(), "a merge must be two tokens, but holds {}", value.type_name());
  const bool fits = value.is_number_unsigned() &&
                    value.template get<std::uint64_t>() < std::uint64_t{Bpe::kMaxSize};
  if (fits) return value.template get<Token>();
  fail("a merge has a token {}, which is out of range",
       value.is_number_unsigned() ? fmt::format("{}", value.template get<std::uint64_t>())
                                  : fmt::format("{}", value.template get<std::int64_t>()));
}

// The merges of a tokenizer's file of ours: a list of pairs of tokens. Error, naming the merge, if
// it is none. Bpe checks what they make.
template <class AnyJson>
std::vector<Merge> merges_of_json(const AnyJson& list) {
  check(list.is_array(), "the merges must be a list, not {}", list.type_name());
  check(static_cast<std::int64_t>(list.size()) + 257 <= Bpe::kMaxSize, "{} merges are too many",
        list.size());
  std::vector<Merge> merges;
  merges.reserve(list.size());
  for (const AnyJson& merge : list) {
    check(merge.is_array() && merge.size() == 2, "merge {} is not a pair of tokens", merges.size());
    merges.emplace_back(token_of_json(merge[0]), token_of_json(merge[1]));
  }
  return merges;
}

}  // namespace tapegrad::data
