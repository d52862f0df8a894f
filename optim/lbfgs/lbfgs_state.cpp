// What an LBFGS writes to checkpoints.

#include <optional>
#include <string>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/lbfgs/lbfgs.h"

namespace tapegrad::optim {
namespace {

// Far more than any program makes; the counts of a file must leave room to go on counting.
constexpr std::int64_t kMostCounted = std::int64_t{1} << 40;

}  // namespace

NamedTensors LBFGS::state() const {
  NamedTensors state;
  if (memory_.iterations == 0) return state;
  state = {{"lbfgs.direction", memory_.direction},
           {"lbfgs.gradient", memory_.gradient},
           {"lbfgs.length", Tensor::scalar(memory_.length, DType::f64)}};
  for (std::size_t i = 0; i < memory_.changes.size(); ++i) {
    state.emplace_back("lbfgs.gradient_change." + std::to_string(i), memory_.changes[i].gradient);
    state.emplace_back("lbfgs.parameter_change." + std::to_string(i),
                       memory_.changes[i].parameters);
  }
  return state;
}

Metadata LBFGS::metadata() const {
  return {{"lbfgs.iterations", std::to_string(memory_.iterations)},
          {"lbfgs.evaluations", std::to_string(memory_.evaluations)},
          {"lbfgs.changes", std::to_string(memory_.changes.size())}};
}

void LBFGS::load_state(const TensorSource& file) {
  const auto count = [&](const std::string& name, std::int64_t most) {
    const auto text = file.metadata().find("lbfgs." + name);
    check(text != file.metadata().end(), "{}: the metadata has no lbfgs.{}", file.name(), name);
    const std::optional<std::int64_t> n = number_of<std::int64_t>(text->second);
    check(n && *n >= 0 && *n <= most, "{}: lbfgs.{} is '{}', not a number from 0 to {}",
          file.name(), name, text->second, most);
    return *n;
  };
  const auto read = [&](const std::string& name, const Shape& shape, DType dtype) {
    const std::string key = "lbfgs." + name;
    const TensorSource::Entry& stored = file.at(key);
    check(stored.shape == shape && stored.dtype == dtype, "{}: '{}' is {} {}, but must be {} {}",
          file.name(), key, stored.shape, name_of(stored.dtype), shape, name_of(dtype));
    return file.read(key);
  };
  const auto row = [&](const std::string& name) {
    return read(name, {size_}, parameters_[0].second.dtype());
  };
  Memory loaded;
  loaded.iterations = count("iterations", kMostCounted);
  loaded.evaluations = count("evaluations", kMostCounted);
  const std::int64_t changes = count("changes", options_.history_size);
  if (loaded.iterations > 0) {
    loaded.direction = row("direction");
    loaded.gradient = row("gradient");
    loaded.length = read("length", {}, DType::f64).item();
  }
  for (std::int64_t i = 0; i < changes; ++i) {
    Tensor gradient = row("gradient_change." + std::to_string(i));
    Tensor parameters = row("parameter_change." + std::to_string(i));
    const double product = inner(gradient, parameters);
    check(product > kLeastProduct, "{}: change {} of the parameters does not fit its gradient's",
          file.name(), i);
    loaded.changes.push_back({std::move(gradient), std::move(parameters), product});
  }
  memory_ = std::move(loaded);
}

}  // namespace tapegrad::optim
