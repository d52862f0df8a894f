#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// Writes a pickle of protocol 2. Between begin_… and end_… stand the elements of a tuple or list,
// or keys and values in turn.
class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}
  std::string take();

  void none() { bytes_ += 'N'; }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value);
  void number(double value);
  void text(std::string_view utf8);
  void begin_dict() { bytes_ += "}("; }
  void begin_ordered_dict();
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void begin_tuple() { bytes_ += '('; }
  void end_tuple() { bytes_ += 't'; }
  // A contiguous tensor of f32, all of the storage of that key.
  void tensor(std::string_view key, const std::vector<std::int64_t>& shape);

 private:
  std::string bytes_;
};

}  // namespace tapegrad
