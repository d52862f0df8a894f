#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/error.h"
#include "tapegrad/tests/faults/verdict.h"
#include "tapegrad/tests/temp_folder.h"

// Helpers of the fuzz targets. libFuzzer calls LLVMFuzzerTestOneInput of a target with inputs that
// it makes up. Whatever ends the process is a finding.

namespace tapegrad::fuzz {

[[noreturn]] inline void finding(const std::string& what) {
  fmt::print(stderr, "finding: {}\n", what);
  std::abort();
}

// True if `read` accepts an input. Refusing it by an Error is right, too, if the message that a
// user would see is a good one and names `name`. Any other exception is a finding.
template <class Read>
bool accepts(std::string_view name, const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string message = cli::printable(error.what());
    // Not all of fault_of_message: libFuzzer would learn the forbidden words from it.
    const std::string fault = faults::fault_of_form(message);
    if (!fault.empty()) finding(fault + ": " + message);
    if (message.find(name) == message.npos) finding("the file is not named: " + message);
    return false;
  }
}

// Where the files are that are read.
inline const std::filesystem::path& folder() {
  static const TempFolder in_memory(memory_folder());
  return in_memory.path();
}

// Makes the bytes the contents of a file of that folder.
inline std::filesystem::path put(std::string_view name, std::string_view bytes) {
  std::filesystem::path path = folder() / name;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const ssize_t written = ::write(file, bytes.data(), bytes.size());
  if (written != static_cast<ssize_t>(bytes.size())) finding("cannot write " + path.string());
  ::close(file);
  return path;
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace tapegrad::fuzz
