#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/model.h"

namespace tapegrad {
namespace {

struct Options {
  std::optional<std::string> model;  // its run folder
  std::string filter;
  bool verbose = false;
  GradientCheckOptions check;
};

bool parse(int argc, char** argv, Options& options) {
  cli::CommandLine cli(
      "gradient-check",
      "Compares the library's gradients with differences, in double precision.\n\n"
      "Each gradient is compared with (f(x + hv) - f(x - hv)) / 2h along a random\n"
      "direction v: first and second derivatives of every op at many shapes, then\n"
      "every step of a small GPT, and the slope of its loss along each parameter.\n"
      "The exit code is 1 if any of them is wrong.");
  cli.group("Checks");
  cli("model", options.model,
      "check a model that train-gpt made, instead of the ops and the small GPT", {.value = "DIR"});
  cli("filter", options.filter, "only ops and parameters whose name has NAME in it",
      {.value = "NAME"});
  cli("tolerance", options.check.tolerance, "largest relative error that passes", {.least = 0});
  cli("seed", options.check.seed, "seed of inputs and directions");
  cli("verbose", options.verbose, "list every input with both values");
  cli.example("gradient-check", "everything, in seconds");
  cli.example("gradient-check --filter attention --verbose", "one op, in full");
  cli.example("gradient-check --model out", "the model in the run folder out");
  if (cli.parse_or_print(argc, argv)) return false;
  if (options.check.tolerance <= 0) cli::usage_error("--tolerance must be above 0");
  return true;
}

// One line of the table: what is checked, and the errors found.
struct Row {
  std::string name, shapes;
  std::vector<GradientCheck> first, second;
};

double worst_error(const std::vector<GradientCheck>& checks) {
  double worst = 0;
  for (const GradientCheck& check : checks) worst = std::max(worst, check.error);
  return worst;
}

// Prints the table as it grows, and counts.
class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  bool wants(const std::string& name) const {
    return name.find(options_.filter) != std::string::npos;
  }

  // Begins a part of the table. Its heading is printed with its first row.
  void section(const std::string& title, const std::string& what, bool two_orders) {
    pending_ = fmt::format("{}\n\n  {:<29} {:<43} {:>10}{}  verdict\n", title, what, "shapes",
                           two_orders ? "1st order" : "error", two_orders ? "  2nd order" : "");
    two_orders_ = two_orders;
  }

  void add(const Row& row) {
    if (!pending_.empty()) fmt::print("{}{}", rows_ == 0 ? "" : "\n", pending_);
    pending_.clear();
    ++rows_;
    std::vector<GradientCheck> all = row.first;
    all.insert(all.end(), row.second.begin(), row.second.end());
    const auto wrong =
        std::count_if(all.begin(), all.end(), [](const auto& c) { return !c.passed; });
    fmt::print("  {:<29} {:<43} {:>10.1e}{}  {}\n", row.name, row.shapes, worst_error(row.first),
               two_orders_ ? fmt::format(" {:>10.1e}", worst_error(row.second)) : "",
               wrong == 0 ? "ok" : "WRONG");
    for (const GradientCheck& check : all) {
      if (options_.verbose || !check.passed) fmt::print("      {}\n", check.str());
    }
    std::fflush(stdout);
    checks_ += all.size();
    wrong_ += static_cast<std::size_t>(wrong);
    worst_ = std::max(worst_, worst_error(all));
  }

  // Prints the summary and returns the exit code.
  int finish() const {
    if (rows_ == 0)
      cli::usage_error("--filter: no op or parameter has '{}' in its name", options_.filter);
    fmt::print("\n{} gradients checked, {}; the largest error is {:.1e}; up to {:g} is allowed.\n",
               checks_, wrong_ == 0 ? "all right" : fmt::format("{} WRONG", wrong_), worst_,
               options_.check.tolerance);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  const Options& options_;
  std::string pending_;
  bool two_orders_ = false;
  std::size_t rows_ = 0, checks_ = 0, wrong_ = 0;
  double worst_ = 0;
};

void check_ops(const Options& options, Report& report) {
  report.section("Ops: first and second derivatives, in f64", "op", true);
  for (const OpCase& op_case : op_table()) {
    if (!report.wants(op_case.op)) continue;
    OpChecks checks = check_op_case(op_case, options.check);
    std::string shapes;
    for (const Shape& shape : op_case.shapes) shapes += (shapes.empty() ? "" : ", ") + shape.str();
    report.add({op_case.op, shapes, std::move(checks.first), std::move(checks.second)});
  }
}

// A model with inputs and targets to run it on.
struct Subject {
  const nn::GPT& gpt;
  NamedTensors parameters;
  Tensor inputs, targets;

  Tensor loss() const { return cross_entropy(gpt(inputs), targets); }
};

Subject on_random_tokens(const nn::GPT& gpt, const NamedTensors& parameters, std::uint64_t seed) {
  Rng rng(seed);
  const std::int64_t B = 2, T = std::min<std::int64_t>(8, gpt.config.block_size);
  const auto draw = [&] {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(B * T));
    for (auto& id : ids) id = static_cast<std::int32_t>(rng.randint(gpt.config.vocab_size));
    return Tensor::from(ids, {B, T});
  };
  const Tensor inputs = draw(), targets = draw();
  return {gpt, parameters, inputs, targets};
}

// The recorded steps of one forward pass. Steps that have op and shapes in common share a row.
void check_steps(const Subject& subject, const Options& options, Report& report) {
  std::vector<Row> rows;
  Tape tape({.checkable = true});
  subject.loss();
  for (GradientCheck& check : check_gradients(tape, options.check)) {
    if (!report.wants(check.op)) continue;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return r.name == check.op && r.shapes == check.shapes;
    });
    if (row == rows.end()) row = rows.insert(row, {check.op, check.shapes, {}, {}});
    row->first.push_back(std::move(check));
  }
  for (const Row& row : rows) report.add(row);
}

// x ← start + h·v
void move(Tensor x, const Tensor& start, const Tensor& v, double h) {
  double* to = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i)
    to[i] = start.data<double>()[i] + h * v.data<double>()[i];
}

// The slope of the loss along a random direction of unit length in one parameter, whose gradient is
// `grad`. Differences over several lengths: a long one is disturbed by curvature, a short one by
// rounding.
GradientCheck check_slope(const Subject& subject, const std::string& name, const Tensor& x,
                          const Tensor& grad, const GradientCheckOptions& options, Rng& rng) {
  const Tensor start = x.clone();
  Tensor v = Tensor::empty(x.shape(), DType::f64);
  rng.normal(std::span(v.mutable_data<double>(), static_cast<std::size_t>(v.numel())), 0,
             1 / std::sqrt(static_cast<double>(v.numel())));
  GradientCheck result{.op = name, .shapes = x.shape().str()};
  if (grad.defined()) result.analytic = sum(grad * v).item();
  result.error = std::numeric_limits<double>::infinity();
  for (const double h : {1e-3, 1e-4, 1e-5}) {
    move(x, start, v, h);
    const double above = subject.loss().item();
    move(x, start, v, -h);
    const double below = subject.loss().item();
    const double numeric = (above - below) / (2 * h);
    const double rounding = 8 * std::numeric_limits<double>::epsilon() * std::abs(above) / h;
    const double error = gradient_error(result.analytic, numeric, rounding, options);
    if (error < result.error) {
      result.error = error;
      result.numeric = numeric;
    }
  }
  move(x, start, v, 0);
  result.passed = result.error <= options.tolerance;
  return result;
}

void check_parameters(const Subject& subject, const Options& options, Report& report) {
  std::vector<Tensor> tensors;
  for (const auto& [name, t] : subject.parameters) tensors.push_back(t);
  Grads grads;
  {
    Tape tape;
    grads = tape.gradient(subject.loss(), tensors);
  }
  Rng rng(options.check.seed);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = subject.parameters[i].first;
    if (!report.wants(name)) continue;
    report.add({name,
                tensors[i].shape().str(),
                {check_slope(subject, name, tensors[i], grads[i], options.check, rng)},
                {}});
  }
}

void check_gpt(const std::string& title, const nn::GPT& gpt, const NamedTensors& parameters,
               const Options& options, Report& report) {
  const Subject subject = on_random_tokens(gpt, parameters, options.check.seed);
  report.section(fmt::format("{}: every step, on {} random tokens", title, subject.inputs.shape()),
                 "step", false);
  check_steps(subject, options, report);
  report.section(title + ": the slope of the loss along each parameter", "parameter", false);
  check_parameters(subject, options, report);
}

int check_all(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) return 0;
  Report report(options);
  if (options.model) {
    const run::TextModel model = run::load(*options.model, DType::f64);
    check_gpt(fmt::format("GPT of {}", *options.model), model.gpt, model.params.parameters(),
              options, report);
    return report.finish();
  }
  check_ops(options, report);
  Rng rng(options.check.seed);
  const nn::Params params(rng, DType::f64);
  const nn::GPT gpt(params,
                    {.vocab_size = 17, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 16});
  check_gpt("GPT of 2 layers", gpt, params.parameters(), options, report);
  return report.finish();
}

}  // namespace
}  // namespace tapegrad

int main(int argc, char** argv) {
  return tapegrad::cli::run_main("gradient-check", [&] { return tapegrad::check_all(argc, argv); });
}
