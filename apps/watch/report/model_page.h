#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tapegrad::watch {

// A page that `tapegrad export` has made of a run's model: see docs/web.md.
struct ModelPage {
  std::filesystem::path written;  // export's --out: the file or the folder
  std::string link;               // from the run's folder, as a URL: "../mine.html"
  bool is_older = false;          // than the run's weights, of which it then has earlier ones
};

// It stands beside the run's folder and has its name: of runs/mine, runs/mine.html, or else the
// folder runs/mine.web. None if neither is there, or is a page of export's.
std::optional<ModelPage> model_page_of(const std::filesystem::path& run);

// It is in the first bytes of such a page: in apps/web/page/index.html.
inline constexpr std::string_view kModelPageMark =
    "<meta name=\"generator\" content=\"tapegrad export\">";

}  // namespace tapegrad::watch
