#include "tapegrad/base/text/internal/lines_of_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/text/internal/line_splitter.h"

namespace tapegrad {
namespace {

constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

}  // namespace

void keep_lines(const std::filesystem::path& path,
                const std::function<bool(std::string_view)>& keeps) {
  const InputFile file(path, Links::refused);
  AtomicFile kept(path);
  std::error_code unknown;  // then the count is a large one
  bool changed = std::filesystem::hard_link_count(path, unknown) > 1;
  LineSplitter lines(kMostLineBytes);
  const auto keep = [&](std::string_view line) {
    if (keeps(line)) {
      kept.writer().write(line);
      kept.writer().write("\n");
    } else {
      changed = true;
    }
  };
  std::string piece;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPieceBytes, file.size() - at));
    check(file.read(at, piece.data(), piece.size()), "[file] cannot read '{}'", path.string());
    lines.take(piece, keep);
  }
  if (changed || lines.within_line()) kept.commit();
}

}  // namespace tapegrad
