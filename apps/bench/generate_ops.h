#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::bench {

// Where the time of a token goes, by steps of a generation in which each text gets one token.
class GenerateOps {
 public:
  explicit GenerateOps(const nn::Decoder& model);

  // Runs a step under a profile. Returns its seconds.
  double step(nn::Generation& generation);

  // A table, and the same as a list. `texts` is the number of tokens that a step makes.
  void print(std::int64_t texts) const;
  Json json(std::int64_t texts) const;

 private:
  struct Row {
    std::string_view name;
    std::int64_t calls = 0;
    double clock = 0, threads = 0;  // seconds by the clock, and of work of all threads
  };
  void add(const Profile::Timeline& line, double seconds);
  // Those that took time, the longest first, and what threads waited; all per token.
  std::vector<Row> rows(std::int64_t texts) const;
  double threads_seconds(std::int64_t texts) const;  // per token

  std::unordered_map<const void*, std::size_t> kinds_;  // of the model's quantised matrices
  std::array<Row, 12> rows_ = {};                       // by kind
  std::int64_t steps_ = 0;
  double seconds_ = 0;
};

}  // namespace tapegrad::bench
