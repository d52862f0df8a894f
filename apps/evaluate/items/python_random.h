#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace tapegrad::evaluation {

// CPython's random.Random(seed), as far as examples are drawn with it: the Mersenne twister
// MT19937, begun by init_by_array of the seed's one word (Matsumoto and Nishimura, 1998 and 2002).
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);

  // sample(range(population), count): places without repetition, in the order in which they are
  // drawn, as CPython 3.11 draws them. Error unless count is at most population.
  std::vector<std::size_t> sample(std::size_t population, std::size_t count);

 private:
  std::size_t below(
      std::size_t bound);  // each number below `bound`, from 1 to 2³² − 1, is as likely

  std::mt19937 words_;
};

}  // namespace tapegrad::evaluation
