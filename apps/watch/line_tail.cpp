#include "tapegrad/apps/watch/line_tail.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/error.h"

namespace tapegrad::watch {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 16;
// Lines of metrics have times in them: the end of one tells a file from another one.
constexpr std::size_t kRememberedBytes = 256;

// Nothing if there is no file that may be read.
std::unique_ptr<InputFile> open(const std::filesystem::path& path) {
  try {
    return std::make_unique<InputFile>(path, Links::refused);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

bool LineTail::restarted() {
  if (offset_ == 0) return false;
  file_ = open(path_);
  std::string now(last_.size(), '\0');
  const bool same = file_ && file_->size() >= offset_ &&
                    file_->read(offset_ - last_.size(), now.data(), now.size()) && now == last_;
  if (same) return false;
  rewind();
  return true;
}

void LineTail::rewind() {
  offset_ = 0;
  lines_.clear();
  last_.clear();
}

bool LineTail::read(std::size_t most_bytes, const std::function<void(std::string_view)>& line) {
  auto file = std::exchange(file_, nullptr);
  if (!file) file = open(path_);
  if (!file) return false;
  char piece[kPieceBytes];
  while (most_bytes > 0 && offset_ < file->size()) {
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>({file->size() - offset_, sizeof piece, most_bytes}));
    if (!file->read(offset_, piece, size)) return false;
    const std::string_view bytes(piece, size);
    remember(bytes);
    lines_.take(bytes, line);
    offset_ += size;
    most_bytes -= size;
  }
  return offset_ < file->size();
}

void LineTail::remember(std::string_view bytes) {
  last_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kRememberedBytes)));
  if (last_.size() > kRememberedBytes) last_.erase(0, last_.size() - kRememberedBytes);
}

}  // namespace tapegrad::watch
