#include <regex>
#include <set>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Names = std::set<std::string>;

std::vector<std::smatch> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()};
}

// The op names in the sources: the string literals that start a call of apply, of apply_many or of
// another function whose first parameter is an op's `std::string_view name`.
Names names_in(const std::map<std::string, std::string>& sources) {
  std::string makers = "apply|apply_many";
  for (const auto& [path, text] : sources) {
    for (const auto& m : matches(text, R"((\w+)\(std::string_view name\b)"))
      makers += "|" + m.str(1);
  }
  Names names;
  const std::string call = R"(\b(?:)" + makers + R"()(?:<\w+>)?\(\s*)";
  for (const auto& [path, text] : sources) {
    for (const auto& m : matches(text, call + R"re("(\w+)"(?:,\s*"(\w+)")?)re")) {
      names.insert(m.str(1));
      if (m[2].matched) names.insert(m.str(2));
    }
  }
  return names;
}

// First arguments of apply and apply_many that are neither literals nor the name that a function of
// the above kind was given: names_in() would miss such an op.
std::vector<std::string> names_out_of_sight(const std::map<std::string, std::string>& sources) {
  std::vector<std::string> lost;
  for (const auto& [path, text] : sources) {
    for (const auto& m : matches(text, R"(\bapply(?:_many)?\(\s*([^"\s][^,]*),)")) {
      const std::string argument = m.str(1);
      if (argument != "name" && argument != "backward_name" &&
          argument != "std::string_view name") {
        lost.push_back(path + ": " + argument);
      }
    }
  }
  return lost;
}

// x² with a vjp that claims the derivative is x.
Tensor wrong_square(const Tensor& x) {
  return apply(
      "wrong_square", {x}, [](Inputs in, Saved& saved) { return saved.keep(in[0]) * in[0]; },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads { return {dy * saved[0]}; });
}

// x³, whose derivative is right but depends on x behind the tape's back.
Tensor unrecorded_cube(const Tensor& x) {
  return apply(
      "unrecorded_cube", {x},
      [](Inputs in, Saved& saved) { return saved.keep(in[0]) * in[0] * in[0]; },
      [](const Tensor& dy, const Saved& saved, const Needs&) -> Grads {
        return {dy * (saved[0] * saved[0] * 3).clone()};
      });
}

// The inputs on which the table has run one op.
struct Coverage {
  bool ordinary = false;
  bool edge = false;       // one that is empty or of rank 0
  bool broadcast = false;  // two of different shapes
};

void add_coverage(std::map<std::string, Coverage>& coverage, const GradientCheck& check) {
  const std::string listed = check.shapes.substr(0, check.shapes.find(" →"));
  Names inputs;
  for (const auto& m : matches(listed, R"(\([^)]*\))")) inputs.insert(m.str());
  Coverage& c = coverage[check.op];
  for (const std::string& shape : inputs) {
    (matches(shape, R"(\(\)|\b0\b)").empty() ? c.ordinary : c.edge) = true;
  }
  c.broadcast = c.broadcast || inputs.size() > 1;
}

Names failed(const std::vector<GradientCheck>& checks) {
  Names names;
  for (const GradientCheck& check : checks) {
    if (!check.passed) names.insert(check.op);
  }
  return names;
}

}  // namespace

TEST_CASE("first and second derivatives of every op agree with differences", "[op_table]") {
  std::map<std::string, Coverage> coverage;
  for (const OpCase& op_case : op_table()) {
    const OpChecks checks = check_op_case(op_case);
    for (const auto* list : {&checks.first, &checks.second}) {
      for (const GradientCheck& check : *list) {
        INFO(op_case.str() << (list == &checks.first ? ": " : ", second derivative: ")
                           << check.str());
        CHECK(check.passed);
        add_coverage(coverage, check);
      }
    }
    // Each case as a whole, in both orders.
    CHECK(coverage.count(op_case.str()) == 1);
    CHECK(coverage.count("gradient of " + op_case.str()) == 1);
  }
  const auto sources = read_sources({"autograd", "nn"});
  CHECK(names_out_of_sight(sources) == std::vector<std::string>{});
  const Names in_sources = names_in(sources);
  CHECK(in_sources.size() >= 40);
  // The mean over no targets is NaN, and logits have at least one dimension.
  const Names no_edge = {"cross_entropy"};
  for (const std::string& name : in_sources) {
    INFO("op " << name << ": the op table needs a line for it at ordinary shapes, and one with an "
               << "input that is empty or of rank 0");
    CHECK(coverage[name].ordinary);
    CHECK((coverage[name].edge || no_edge.count(name) == 1));
  }
  for (const char* name : {"add", "sub", "mul", "div", "pow", "maximum"}) {
    INFO("op " << name << ": the op table needs a line with inputs that broadcast");
    CHECK(coverage[name].broadcast);
  }
}

TEST_CASE("what adds a gradient to a sum adds what the vjp returns", "[op_table]") {
  std::set<std::string_view> seen;
  for (const OpCase& op_case : op_table()) {
    Rng rng(12);
    const std::vector<Tensor> inputs = op_case.inputs(rng);
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    op_case.run(inputs);
    const TapePause pause;
    for (const auto& step : tape.steps()) {
      if (!step->add) continue;
      INFO(op_case.str() << ": " << step->name);
      seen.insert(step->name);
      const Tensor dy = normal(rng, step->outputs[0].shape);
      Tensor sum = normal(rng, step->inputs[0].shape);
      const std::vector<Tensor> dys = {dy};
      const Tensor expected = sum + step->vjp(dys, step->saved, {true})[0];
      step->add(dy, step->saved, sum);
      CHECK(difference(sum, expected, 1e-14, 1e-14) == "");
    }
  }
  CHECK(seen == std::set<std::string_view>{"gather_rows"});
}

TEST_CASE("the search for op names sees literals, helpers and what it would miss", "[op_table]") {
  const std::map<std::string, std::string> sources = {
      {"a.cpp", R"(return apply("one", {x}, ...); apply_many(
                   "two", xs, f); helper<Form>("three", "four", x); other("five");)"},
      {"a.h",
       "Tensor helper(std::string_view name, std::string_view backward_name) {"
       "  return apply(name, {x}); }"}};
  CHECK(names_in(sources) == Names{"one", "two", "three", "four"});
  CHECK(names_out_of_sight(sources).empty());
  CHECK(names_out_of_sight({{"a.cpp", "apply(op.name(), {x})"}}).size() == 1);
}

TEST_CASE("a wrong vjp fails the gradient check, which names that op alone", "[op_table]") {
  Rng rng(1);
  const Tensor x = parameter(rng, {3});
  Tape tape({.checkable = true});
  tanh(wrong_square(exp(x)) * x);
  const auto checks = check_gradients(tape);
  CHECK(checks.size() == 5);
  CHECK(failed(checks) == Names{"wrong_square"});
  for (const GradientCheck& check : checks) {
    if (check.passed) continue;
    CHECK(check.numeric == Approx(2 * check.analytic));
    CHECK_THAT(check.str(), ContainsSubstring("[wrong_square] input 0 of (3) → (3)") &&
                                ContainsSubstring("WRONG"));
  }
}

TEST_CASE("a vjp that hides a dependency from the tape fails the check of its second derivative",
          "[op_table]") {
  const OpCase op_case{
      "unrecorded_cube", {{3}}, Draw::normal, [](Inputs x) { return unrecorded_cube(x[0]); }};
  const OpChecks checks = check_op_case(op_case);
  CHECK(failed(checks.first).empty());
  CHECK(failed(checks.second) == Names{"gradient of unrecorded_cube (3)"});
}

TEST_CASE("a gradient check holds f32 ops to f32's accuracy", "[op_table]") {
  Rng rng(2);
  const Tensor x = parameter(rng, {4, 5}, DType::f32), w = parameter(rng, {3, 5}, DType::f32);
  Tape tape({.checkable = true});
  sum(wrong_square(linear(x, w)));
  CHECK(failed(check_gradients(tape, {.tolerance = 1e-2})) == Names{"wrong_square"});
}

TEST_CASE("a gradient check needs the forwards of a tape that has not run", "[op_table]") {
  Rng rng(2);
  const Tensor x = parameter(rng, {4});
  {
    Tape tape({.checkable = true});
    const Tensor y = sum(x);
    CHECK(check_gradients(tape).size() == 2);  // sum and reshape
    tape.backward(y);
    CHECK_THROWS_WITH(check_gradients(tape), ContainsSubstring("the tape has run backward"));
  }
  Tape tape;
  sum(x);
  CHECK_THROWS_WITH(check_gradients(tape),
                    ContainsSubstring("step 0 (sum)") && ContainsSubstring("{.checkable = true}"));
}
