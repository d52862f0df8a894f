#include "tapegrad/arrays/internal/npy_header.h"

#include <cstring>
#include <set>

#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::arrays {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64, kMostHeader = std::size_t{1} << 20;

// The dict of a header, as Python prints it: {'descr': '<f4', 'fortran_order': False, 'shape': (3,
// 4), }.
class HeaderText {
 public:
  HeaderText(const std::string& file, std::string_view text) : file_(file), rest_(text) {}

  NpyHeader parse() {
    NpyHeader header{};
    std::set<std::string, std::less<>> seen;
    expect('{');
    while (!take('}')) {
      const std::string key = text();
      expect(':');
      if (key == "descr") {
        header.descr = type();
      } else if (key == "fortran_order") {
        header.fortran_order = truth();
      } else if (key == "shape") {
        header.shape = shape();
      } else {
        fail_at("a key of numpy's");
      }
      seen.insert(key);
      if (take('}')) break;
      expect(',');
    }
    check(seen.size() == 3, "{}: its header lacks one of descr, fortran_order and shape", file_);
    skip_blanks();
    if (!rest_.empty()) fail_at("the end");
    return header;
  }

 private:
  [[noreturn]] void fail_at(std::string_view expected) const {
    fail("{}: its header is broken: where {} should be, there is '{}'", file_, expected,
         quoted(rest_.substr(0, 20)));
  }
  // Of bytes that may be anything, those that are plain text.
  static std::string quoted(std::string_view bytes) {
    std::string text(bytes);
    for (char& c : text) {
      if (c < ' ' || c > '~') c = '?';
    }
    return text;
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail_at(std::string(1, c));
  }
  std::string text() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = rest_.find(quote);
    if (end == rest_.npos) fail_at("the end of a text");
    const std::string found(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return found;
  }
  std::string type() {
    skip_blanks();
    check(!rest_.starts_with('['),
          "{}: its elements have fields, as a table's rows; save each of them as an array of its "
          "own",
          file_);
    return quoted(text());
  }
  bool truth() {
    skip_blanks();
    const bool yes = rest_.starts_with("True");
    if (!yes && !rest_.starts_with("False")) fail_at("True or False");
    rest_.remove_prefix(yes ? 4 : 5);
    return yes;
  }
  Shape shape() {
    Shape dims;
    expect('(');
    while (!take(')')) {
      skip_blanks();
      const auto dim = take_number<std::int64_t>(rest_);
      if (!dim || *dim < 0) fail_at("a size");
      check(dims.rank() < Shape::kMaxRank, "{}: its array has more than {} dimensions", file_,
            +Shape::kMaxRank);
      dims.push_back(*dim);
      if (take(')')) break;
      expect(',');
    }
    return dims;
  }

  const std::string& file_;
  std::string_view rest_;
};

}  // namespace

NpyHeader read_npy_header(ByteSource& source) {
  unsigned char begin[8];
  source.read(begin, sizeof begin);
  check(std::memcmp(begin, kMagic.data(), kMagic.size()) == 0,
        "{}: it does not begin as an .npy file does", source.name());
  const int version = begin[6];
  check(version >= 1 && version <= 3, "{}: its format is version {}; versions 1 to 3 are read",
        source.name(), version);
  std::uint32_t size = 0;
  source.read(&size, version == 1 ? 2 : 4);
  check(size <= kMostHeader && size <= source.most_left(),
        "{}: its header has {} bytes, which is more than {}", source.name(), size,
        size <= kMostHeader ? "the file" : "any has");
  std::string text(size, '\0');
  source.read(text.data(), size);
  return HeaderText(source.name(), text).parse();
}

std::string npy_header(std::string_view descr, const Shape& shape) {
  std::string dims;
  for (const std::int64_t dim : shape) dims += fmt::format("{}, ", dim);
  if (shape.rank() > 1) dims.resize(dims.size() - 2);
  if (shape.rank() == 1) dims.pop_back();  // Python's "(3,)"
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  const std::size_t before = kMagic.size() + 4;
  text.append(kAlignment - 1 - (before + text.size()) % kAlignment, ' ');
  text += '\n';
  const auto size = static_cast<std::uint16_t>(text.size());
  std::string all(kMagic);
  all += {'\1', '\0', static_cast<char>(size & 0xff), static_cast<char>(size >> 8)};
  return all + text;
}

}  // namespace tapegrad::arrays
