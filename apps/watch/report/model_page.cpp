#include "tapegrad/apps/watch/report/model_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/run/folder/run_checkpoint.h"

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

// A file of that name may be any: `watch --html` writes pages, too.
bool is_model_page(const fs::path& path) {
  constexpr std::uint64_t kHead = 1024;
  try {
    const InputFile file(path);
    std::string head(std::min(kHead, file.size()), '\0');
    return file.read(0, head.data(), head.size()) && head.find(kModelPageMark) != head.npos;
  } catch (const Error&) {  // it is missing, or no file
    return false;
  }
}

// RFC 3986, section 2: what is not unreserved is written as %XX. A name may be any bytes.
std::string url_part(std::string_view name) {
  std::string part;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    part += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return part;
}

bool is_older(const fs::path& page, const fs::path& weights) {
  std::error_code no_page, no_weights;
  const auto page_time = fs::last_write_time(page, no_page);
  const auto weights_time = fs::last_write_time(weights, no_weights);
  return !no_page && !no_weights && page_time < weights_time;
}

}  // namespace

std::optional<ModelPage> model_page_of(const fs::path& run) {
  const fs::path folder = absolute_path(run / "").lexically_normal().parent_path();
  const std::string name = folder.filename().string();
  if (name.empty()) return std::nullopt;  // the root has nothing beside it
  for (const auto& [end, index] : {std::pair(".html", ""), std::pair(".web", "/index.html")}) {
    const fs::path written = folder.parent_path() / (name + end), page = written.string() + index;
    if (!is_model_page(page)) continue;
    return ModelPage{written, "../" + url_part(name) + end + index,
                     is_older(page, folder / run::kModelFile)};
  }
  return std::nullopt;
}

}  // namespace tapegrad::watch
