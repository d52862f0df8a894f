// Texts of numbers, with a header or without, and with two separators.

#include <cmath>

#include "tapegrad/arrays/csv.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::put("table", fuzz::text_of(data, size));
  for (const arrays::CsvOptions& options :
       {arrays::CsvOptions{}, arrays::CsvOptions{.header = true, .separator = ';'}}) {
    fuzz::accepts("table", [&] {
      const Tensor values = arrays::load_csv(path, options).values;
      if (static_cast<std::size_t>(values.numel()) > size) fuzz::finding("more numbers than bytes");
      for (const float value : values.values<float>()) {
        if (!std::isfinite(value)) fuzz::finding("a number that is not finite");
      }
    });
  }
  return 0;
}
