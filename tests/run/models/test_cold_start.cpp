// The cost of beginning a text with a model in a file: its bytes are read once, and lie in memory
// once. Each model is opened in a process of its own, which counts what the system says of it.

#include <charconv>
#include <fstream>

#include "tapegrad/base/parallel.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// In the working folder of the process that opens them.
constexpr const char *kSmall = "small", *kLarge = "large";

// A number that a file of /proc/self has behind a name.
std::int64_t number_of_process(const char* file, std::string_view name) {
  std::ifstream lines(std::string("/proc/self/") + file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t begin = line.find_first_of("0123456789");
    std::int64_t value = 0;
    std::from_chars(line.data() + begin, line.data() + line.size(), value);
    return value;
  }
  return -1;
}
std::int64_t bytes_read() { return number_of_process("io", "rchar:"); }
std::int64_t most_bytes() { return number_of_process("status", "VmHWM:") << 10; }

std::int64_t bytes_of_files(const fs::path& path) {
  if (!fs::is_directory(path)) return static_cast<std::int64_t>(fs::file_size(path));
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) bytes += bytes_of_files(entry.path());
  return bytes;
}

// The large one has large matrices, so that another copy of a single one is seen.
run::TextModel model_of_width(std::int64_t width) {
  nn::DecoderConfig c = tiny(small_bpe());
  c.n_layer = 2, c.n_head = width / 64, c.n_embd = width;
  return model_of(small_bpe(), c);
}

// The memory with the cache, if each byte is in memory once.
double open_and_make_token(const char* path) {
  const run::TextModel model = run::load_quantized(run::open_model(path));
  CHECK(!model.stream("the cat", {.max_new_tokens = 1, .greedy = true}).text().empty());
  return static_cast<double>(bytes_of_files(path) +
                             model.gpt.config.block_size *
                                 nn::cache_bytes_per_position(model.gpt.config));
}

}  // namespace

// Run by the test behind it; alone, it has nothing to open.
TEST_CASE("a process opens a model and makes a token", "[.opens]") {
  if (!fs::exists(kLarge)) return;
  set_num_threads(2);
  const double small = open_and_make_token(kSmall);  // with the program's own pages
  const std::int64_t read_before = bytes_read(), most_before = most_bytes();
  const double once = open_and_make_token(kLarge) - small;
  const auto read = static_cast<double>(bytes_read() - read_before);
  const auto most = static_cast<double>(most_bytes() - most_before);
  INFO(read << " bytes were read, and " << most << " more were in memory, for " << once);
  CHECK(read_before > 0);
  CHECK(read < 1.1 * static_cast<double>(bytes_of_files(kLarge)));
#ifndef TAPEGRAD_SANITIZED  // sanitizers keep what was freed
  CHECK(most_before > 0);
  CHECK(most < 1.1 * once);
#endif
}

TEST_CASE("a model is read once, and is in memory once", "[cold_start]") {
  const run::TextModel small = model_of_width(256), large = model_of_width(1024);
  const auto opens = [&](std::string_view format, std::string_view type) {
    const TempFolder folder;
    const run::ExportFormat& to = run::export_format(format);
    run::export_model(small, to, folder / kSmall, stored_type(type));
    run::export_model(large, to, folder / kLarge, stored_type(type));
    const Result r = run_program("tapegrad_tests", {"[.opens]"}, folder / "");
    INFO(format << " " << type << "\n" << r.out << r.err);
    CHECK(r.code == 0);
  };
  for (const char* type : {"f32", "bf16", "q8_0"}) opens("gguf", type);
  // GPT-2's matrices are transposed there.
  for (const char* type : {"f32", "bf16"}) opens("hf", type);
}
