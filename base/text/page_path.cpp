#include "tapegrad/base/text/internal/page_path.h"

#include <algorithm>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

void check_page_path(const char* option, const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  check(folder.empty() || is_folder(folder), "{} {}: there is no folder {}", option, file.string(),
        folder.string());
  if (!path_exists(file)) return;
  constexpr std::string_view kBegin = "<!doctype html>";
  const InputFile old(file);
  char begin[kBegin.size()] = {};
  const std::size_t bytes = std::min<std::uint64_t>(old.size(), kBegin.size());
  check(old.read(0, begin, bytes) && std::string_view(begin, bytes) == kBegin.substr(0, bytes),
        "{} {}: the file that is there is no page, and stays", option, file.string());
}

}  // namespace tapegrad
