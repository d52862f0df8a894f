#include "tapegrad/run/models/formats/foreign_model.h"

#include <algorithm>

#include "tapegrad/run/models/formats/gguf/gguf_model.h"
#include "tapegrad/run/models/formats/hf/hf_folder.h"
#include "tapegrad/run/models/formats/llmc.h"
#include "tapegrad/run/models/formats/nanogpt.h"

namespace tapegrad::run {
namespace {

struct Format {
  bool (*is)(const std::filesystem::path& path);
  ForeignModel (*open)(const std::filesystem::path& path);
};
constexpr Format kFormats[] = {
    {is_hf_folder, open_hf},
    {is_llmc_file, open_llmc},
    {is_gguf_file, open_gguf},
    {is_nanogpt_checkpoint, open_nanogpt},
};

}  // namespace

std::optional<ForeignModel> open_foreign(const std::filesystem::path& path) {
  for (const Format& format : kFormats) {
    if (format.is(path)) return format.open(path);
  }
  return std::nullopt;
}

bool is_foreign(const std::filesystem::path& path) {
  return std::ranges::any_of(kFormats, [&](const Format& format) { return format.is(path); });
}

}  // namespace tapegrad::run
