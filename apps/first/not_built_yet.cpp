#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/completion.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/options/quantized_weights.h"

// What the first program has in place of what is not compiled yet: see cmake/first.cmake.

// The linker takes it for all functions that are called and not there.
extern "C" [[noreturn]] void tapegrad_not_built_yet();

namespace tapegrad {
namespace {

[[noreturn]] void end_not_built(std::string_view program, std::string_view what) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::path file = fs::read_symlink("/proc/self/exe", unknown);  // BUILD/bin/tapegrad
  const std::string build = unknown ? "build" : file.parent_path().parent_path().string();
  print_error(fmt::format(
      "{}: error: {} not built yet; build the rest by: cmake --build {} --target programs\n",
      program, what, cli::printable(build)));
  throw cli::Completed{2};
}

}  // namespace

namespace cli {

// In place of a command's own function.
int run_later(const Call& call) {
  // Completions, and words that are looked for among all commands' options, do without its options.
  if (is_completing()) return 0;
  if (call.argc > 1 && call.argv[1] == std::string_view("--find")) return 1;
  return run_main(call.name, [&]() -> int { end_not_built(call.name, "this command is"); });
}

}  // namespace cli

namespace run {

// Of all types of files: the whole program says which of them it computes with.
std::vector<std::string> quantized_weights() {
  std::vector<std::string> names = {std::string(kStored)};
  for (const StoredType& type : stored_types()) names.emplace_back(type.name);
  return names;
}

const StoredType* quantized_type(std::string_view weights) {
  if (weights != kStored) tapegrad_not_built_yet();
  return nullptr;
}

// Samples of a run multiply with its matrices as they are, to the last bits but a few.
void quantize(const nn::Params&, std::string_view) {}

// A training mentions it, and goes on without.
std::string export_obstacle(const nn::DecoderConfig&) { return ""; }

}  // namespace run
}  // namespace tapegrad

extern "C" void tapegrad_not_built_yet() {
  tapegrad::end_not_built("tapegrad", "a part of the program that this needs is");
}
