// The sweep.json of a sweep that goes on, and the values of --vary.

#include <algorithm>
#include <cmath>

#include "tapegrad/apps/sweep/sweep_record.h"
#include "tapegrad/apps/sweep/varied_options.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

void read_values(const std::string& text, sweep::OptionKind kind) {
  const auto o = sweep::parse_varied(text, [&](const std::string&) { return kind; });
  const sweep::Values drawn = sweep::draw({o}, 1, 2);
  if (drawn.size() != 1) fuzz::finding("no value");
  if (o.is_list()) {
    if (std::count(o.values.begin(), o.values.end(), drawn[0]) != 1) fuzz::finding("not listed");
    return;
  }
  const auto x = number_of<double>(drawn[0]);
  if (!x || !(*x >= o.low && *x <= o.high)) fuzz::finding("out of range: " + drawn[0]);
  if (o.whole && std::round(*x) != *x) fuzz::finding("not whole: " + drawn[0]);
}

void read_record(std::string_view text) {
  const auto runs =
      sweep::with_results("sweep.json", parse_json_object("sweep.json", std::string(text)),
                          sweep::new_runs({{"1"}, {"2"}}));
  if (runs.size() != 2 || runs[1].name != "002") fuzz::finding("other runs");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  if (data[0] == '{') {
    fuzz::accepts("sweep.json", [&] { read_record(fuzz::text_of(data, size)); });
  } else {
    const auto kind = static_cast<sweep::OptionKind>(data[0] % 3);
    fuzz::accepts("--vary", [&] { read_values(std::string(text), kind); });
  }
  return 0;
}
