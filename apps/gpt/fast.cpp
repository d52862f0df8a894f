#include "tapegrad/apps/gpt/fast.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "tapegrad/apps/gpt/gpt_facts.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/corpus/mixture.h"

namespace tapegrad::gpt {
namespace {

// A model for runs from so much work on, up to the next one's.
struct Rung {
  double flops;
  int n_layer, n_embd;  // heads have 32 channels
  std::int64_t block_size, batch_size;
};
constexpr Rung kRungs[] = {
    {0, 4, 128, 64, 24},       {20e12, 6, 192, 128, 32}, {100e12, 6, 256, 256, 16},
    {400e12, 8, 384, 256, 32}, {2e15, 8, 512, 256, 64},
};

const Rung& rung_for(const Means& means) {
  const Rung* rung = kRungs;
  while (rung + 1 != std::end(kRungs) && rung[1].flops <= means.flops) ++rung;
  return *rung;
}

std::string tokenizer_for(double bytes) {
  if (bytes < 5e6) return "bpe:512";
  return bytes < 30e6 ? "bpe:2048" : "bpe:4096";
}

constexpr double kUsualBytes = 10e6;  // of a text whose length is not known before it is read

double bytes_of_file(const std::filesystem::path& path) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (failed) return 0;
  const std::string end = path.extension().string();
  const double packed = end == ".gz" || end == ".zst" ? 4 : end == ".bin" ? 2 : 1;
  return packed * static_cast<double>(size);
}

double bytes_of_path(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return bytes_of_file(path);
  double bytes = 0;
  std::filesystem::recursive_directory_iterator it(path, failed), end;
  for (; !failed && it != end; it.increment(failed)) {
    std::error_code unknown;
    if (it->is_regular_file(unknown)) bytes += bytes_of_file(it->path());
  }
  return bytes;
}

}  // namespace

Options fast_options(const Means& means) {
  const Rung& rung = rung_for(means);
  Options o;
  o.text.tokenizer = tokenizer_for(means.bytes);
  nn::DecoderConfig& m = o.model;
  m.n_layer = rung.n_layer, m.n_embd = rung.n_embd, m.n_head = rung.n_embd / 32;
  o.text.block_size = m.block_size = rung.block_size;
  set_fast_parts(o);
  o.optimizer.batch_size = rung.batch_size;
  o.optimizer.dtype = run::TrainDtype::automatic;
  o.call.max_minutes = 2;
  return o;
}

Options fast_options(const Options& asked, const cli::ProductRate& rate_of) {
  const std::optional<double> known = text_bytes(asked.text);
  // A product of the middle of the rungs. Threads and library are those of the call.
  const double rate = rate_of({4096, 768, 192}), minutes = asked.call.max_minutes.value_or(2);
  const Means means{.bytes = known.value_or(kUsualBytes), .flops = 60 * minutes * rate};
  Options o = fast_options(means);
  o.extras.recipe_note =
      fmt::format("fast: for {} of text{}, and {} at {:.0f} GFLOP/s", size_text(means.bytes),
                  known ? "" : " (a guess: its length is known when it is read)",
                  duration_text(60 * minutes), rate * 1e-9);
  return o;
}

std::optional<double> text_bytes(const run::TextOptions& text) {
  const run::CorpusSource source = text.source();
  if (source.reads_stdin()) return std::nullopt;
  if (source.paths.empty()) return static_cast<double>(default_text().contents.size());
  double bytes = 0;
  for (const std::string& path : source.paths) {
    bytes += bytes_of_path(source.weighted ? run::weighted_file(path).path : path);
  }
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

}  // namespace tapegrad::gpt
