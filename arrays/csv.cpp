#include "tapegrad/arrays/csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "tapegrad/base/file.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::arrays {
namespace {

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// The lines of a file and their fields.
class CsvReader {
 public:
  CsvReader(const std::filesystem::path& path, char separator)
      : path_(path.string()), text_(read_file(path)), separator_(separator) {
    check(separator != '\n' && separator != '\r' && separator != '"' && separator != '.',
          "[csv] the separator cannot be character {}", static_cast<int>(separator));
    rest_ = text_;
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
    rest_ = rest_.substr(0, rest_.find_last_not_of("\r\n") + 1);
    if (separator == '\t' || separator == ' ') blanks_ = separator == '\t' ? " \r" : "\t\r";
  }

  // Calls take(field, column) for each field of the next line. False at the end.
  template <class Take>
  bool next_line(const Take& take) {
    if (rest_.empty()) return false;
    ++line_;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    std::size_t column = 0;
    for (bool last = false; !last; ++column) {
      const std::size_t field = line.find(separator_);
      last = field == line.npos;
      take(trimmed(line.substr(0, field), blanks_), column);
      if (!last) line.remove_prefix(field + 1);
    }
    if (columns_ == 0) columns_ = column;
    check(column == columns_, "{}: line {} has {} fields, and the first line {}", path_, line_,
          column, columns_);
    return true;
  }

  template <class T>
  T number(std::string_view field, std::size_t column) const {
    check(!field.empty(), "{}: line {}, field {} is empty", path_, line_, column + 1);
    const std::optional<double> value = number_of<double>(field);
    check(value && std::isfinite(*value), "{}: line {}, field {} is no finite number: '{}'{}",
          path_, line_, column + 1, for_message(field),
          line_ == 1 ? "; a first line with the names of columns needs CsvOptions::header" : "");
    check(fits<T>(*value), "{}: line {}, field {} is {}, which {} cannot hold", path_, line_,
          column + 1, for_message(field), name_of(dtype_of<T>()));
    return static_cast<T>(*value);
  }

  template <class T>
  static bool fits(double value) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::isfinite(static_cast<T>(value));
    } else {
      return value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
             value <= static_cast<double>(std::numeric_limits<T>::max()) &&
             std::abs(value) <= 0x1p53 && value == std::trunc(value);
    }
  }

  const std::string& path() const { return path_; }
  std::size_t columns() const { return columns_; }

 private:
  static std::string for_message(std::string_view field) {
    std::string text(field.substr(0, 30));
    for (char& c : text) {
      if (c < ' ' || c > '~') c = '?';
    }
    return text;
  }

  std::string path_, text_;
  char separator_;
  std::string_view rest_, blanks_ = " \t\r";
  std::size_t line_ = 0, columns_ = 0;
};

template <class T>
Tensor read_numbers(CsvReader& reader) {
  std::vector<T> numbers;
  const auto take = [&](std::string_view field, std::size_t column) {
    numbers.push_back(reader.number<T>(field, column));
  };
  while (reader.next_line(take)) {
  }
  check(!numbers.empty(), "{}: it has no numbers", reader.path());
  const auto columns = static_cast<std::int64_t>(reader.columns());
  return Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size()) / columns, columns});
}

}  // namespace

Csv load_csv(const std::filesystem::path& path, const CsvOptions& options) {
  CsvReader reader(path, options.separator);
  Csv csv;
  if (options.header) {
    reader.next_line([&](std::string_view field, std::size_t) {
      csv.columns.emplace_back(trimmed(field, "\""));
    });
  }
  csv.values =
      dispatch_all(options.dtype, [&](auto zero) { return read_numbers<decltype(zero)>(reader); });
  return csv;
}

Tensor Csv::column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  check(found != columns.end(), "[csv] there is no column '{}'; there are {}", name,
        fmt::join(columns, ", "));
  Tensor result = Tensor::empty({values.dim(0)}, values.dtype());
  dispatch_all(values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = values.data<T>() + (found - columns.begin());
    T* to = result.mutable_data<T>();
    for (std::int64_t row = 0; row < values.dim(0); ++row) to[row] = from[row * values.dim(1)];
  });
  return result;
}

}  // namespace tapegrad::arrays
