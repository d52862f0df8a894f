#pragma once

#include <deque>
#include <string>

#include "tapegrad/autograd/formats/pickle_value.h"

namespace tapegrad {

// Python's pickles, as far as files of models have them: Python's documentation, module
// pickletools. A pickle is a program that builds values. This reader knows the instructions that
// build plain data and PyTorch's tensors. It never calls or imports anything: the names of the
// storages, of OrderedDict and of torch's function for tensors are words that it knows, and every
// other name is refused.
class Pickle {
 public:
  // Reads a pickle of protocol 2 to 5, of at most kMostBytes. Error, with the byte and `source`,
  // the file that it is from, for one that is broken, has more than two million values, or needs
  // what is not known here, which is named.
  Pickle(std::string bytes, std::string_view source);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

  static constexpr std::int64_t kMostBytes = std::int64_t{8} << 20;

 private:
  std::string bytes_;
  std::deque<PickleValue> values_;  // which keep their addresses
  const PickleValue* root_ = nullptr;
};

}  // namespace tapegrad
