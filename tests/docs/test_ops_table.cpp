#include <cfloat>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tapegrad/arrays/npy.h"
#include "tapegrad/autograd/derivatives.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/autograd/ops/recurrent_ops.h"
#include "tapegrad/base/random.h"
#include "tapegrad/nn/init.h"
#include "tapegrad/nn/layers/recurrent.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

// The names of the expressions in torch_functions.h. They are never defined: the expressions are
// compiled, and not run.
namespace tapegrad::torch_names {

extern const Tensor x, y, a, b, bias, mask, ids;
extern Tensor w;
extern Rng rng;
extern Tape tape;
extern const NamedTensors parameters;
extern const CheckpointFunction block;
extern const TensorFunction f;
extern const std::function<Tensor(std::int64_t)> loss;

template <class T>
struct Type {
  static constexpr bool exists = true;
};

struct OpsTableRow {
  std::string section, torch, ours, reason, difference = {};
};

// A macro, since only that has both the text of an expression and its type.
#define TOPIC(heading) {heading, "", "", ""},
#define HERE(torch, ...) {Type<decltype(__VA_ARGS__)>::exists ? "" : "", torch, #__VA_ARGS__, ""},
#define NEAR(torch, difference, ...) \
  {Type<decltype(__VA_ARGS__)>::exists ? "" : "", torch, #__VA_ARGS__, "", difference},
#define ABSENT(torch, reason) {"", torch, "", reason},
const std::vector<OpsTableRow>& ops_table_rows() {
  static const std::vector<OpsTableRow> rows = {
#include "tapegrad/tests/docs/torch_functions.h"
  };
  return rows;
}
#undef TOPIC
#undef HERE
#undef NEAR
#undef ABSENT

}  // namespace tapegrad::torch_names

using tapegrad::torch_names::ops_table_rows;

TEST_CASE("the table of ops says of each of PyTorch's functions what the compiler has seen",
          "[docs]") {
  std::ifstream file(std::string(tapegrad::places::kSources) + "/docs/ops.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `") || line.starts_with("## ")) lines.push_back(line);
  }
  std::vector<std::string> expected;
  int here = 0, near = 0, all = 0;
  for (const auto& row : ops_table_rows()) {
    if (!row.section.empty()) {
      expected.push_back("## " + row.section);
      continue;
    }
    ++all;
    if (!row.ours.empty()) ++here;
    if (!row.difference.empty()) ++near;
    expected.push_back("| `" + row.torch + "` | " +
                       (row.ours.empty() ? "not planned: " + row.reason : "`" + row.ours + "`") +
                       (row.difference.empty() ? "" : ", near: " + row.difference) + " |");
  }
  INFO("docs/ops.md is made by python3 tests/docs/ops_table.py");
  CHECK(lines == expected);
  file.clear();
  file.seekg(0);
  std::stringstream text;
  text << file.rdbuf();
  const std::string share = std::to_string(here) + " of " + std::to_string(all) + " exist (" +
                            std::to_string(here * 100 / all) + " %)";
  CHECK_THAT(text.str(), ContainsSubstring(share));
  CHECK_THAT(text.str(), ContainsSubstring(std::to_string(near) + " of these are marked *near*"));
  CHECK(here * 100 >= 85 * all);
}
