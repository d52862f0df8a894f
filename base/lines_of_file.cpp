#include "tapegrad/base/lines_of_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"

namespace tapegrad {
namespace {

constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

// Cuts pieces of a file into its complete lines.
class Lines {
 public:
  explicit Lines(std::function<void(std::string_view)> line) : line_(std::move(line)) {}

  void take(std::string_view piece) {
    for (std::size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
      add(piece.substr(0, end));
      line_(too_long_ ? std::string_view() : begun_);
      begun_.clear();
      too_long_ = false;
    }
    add(piece);
  }
  bool ends_within_line() const { return too_long_ || !begun_.empty(); }

 private:
  void add(std::string_view part) {
    too_long_ = too_long_ || begun_.size() + part.size() > kMostLineBytes;
    if (too_long_) {
      begun_.clear();
    } else {
      begun_ += part;
    }
  }

  std::function<void(std::string_view)> line_;
  std::string begun_;
  bool too_long_ = false;
};

}  // namespace

void keep_lines(const std::filesystem::path& path,
                const std::function<bool(std::string_view)>& keeps) {
  const InputFile file(path, Links::refused);
  AtomicFile kept(path);
  bool changed = std::filesystem::hard_link_count(path) > 1;
  Lines lines([&](std::string_view line) {
    if (keeps(line)) {
      kept.writer().write(line);
      kept.writer().write("\n");
    } else {
      changed = true;
    }
  });
  std::string piece;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kPieceBytes, file.size() - at));
    check(file.read(at, piece.data(), piece.size()), "[file] cannot read '{}'", path.string());
    lines.take(piece);
  }
  if (changed || lines.ends_within_line()) kept.commit();
}

}  // namespace tapegrad
