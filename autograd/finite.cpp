#include "tapegrad/autograd/internal/finite.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tapegrad/base/parallel.h"

namespace tapegrad {
namespace {

// An element is NaN or infinite if all bits of its exponent are set. Without a branch, so that the
// loop becomes vector code.
template <class T>
bool all_finite(const T* x, std::int64_t n) {
  using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits broken = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    broken |= (std::bit_cast<Bits>(x[i]) & exponent) == exponent ? 1U : 0U;
  }
  return broken == 0;
}

bool is_broken(const Tensor& t) { return t.defined() && !all_finite(t); }

// True if t shows the data of one of `from`: a reshape's result, or the gradient that a sum hands
// on. The op has not made them.
bool is_handed_on(const Tensor& t, Inputs from) {
  if (!t.defined() || !is_float(t.dtype())) return false;
  return dispatch(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return std::any_of(from.begin(), from.end(), [&](const Tensor& other) {
      return other.defined() && other.dtype() == t.dtype() && other.data<T>() == t.data<T>();
    });
  });
}

// "NaN at element 7 of (2, 5)".
std::string first_broken(const Tensor& t) {
  std::int64_t i = 0;
  while (std::isfinite(t.at(i))) ++i;
  return fmt::format("{} at element {} of {}",
                     std::isnan(t.at(i)) ? "NaN"
                     : t.at(i) > 0       ? "infinity"
                                         : "-infinity",
                     i, t.shape());
}

// The name of the first of these inputs that is a parameter; empty if none is.
std::string parameter_of(const TapeRecord& tape, std::span<const std::uint64_t> ids) {
  for (const std::uint64_t id : ids) {
    for (const auto& [name, parameter] : tape.options.names) {
      if (parameter.id() == id) return name;
    }
  }
  return "";
}

std::vector<std::uint64_t> input_ids(const Step& step) {
  std::vector<std::uint64_t> ids;
  for (const Step::Slot& slot : step.inputs) ids.push_back(slot.id);
  return ids;
}

// ", in module h.0.ln_1" or ", after module h.0.ln_1": of the op with these inputs, before which
// the tape has recorded `count` steps.
std::string place(const TapeRecord& tape, std::span<const std::uint64_t> ids, std::size_t count) {
  const auto module = [](const std::string& parameter) {
    return parameter.substr(0, std::min(parameter.size(), parameter.rfind('.')));
  };
  std::string name = parameter_of(tape, ids);
  if (!name.empty()) return ", in module " + module(name);
  while (count-- > 0) {
    if (tape.steps[count] == nullptr) continue;
    name = parameter_of(tape, input_ids(*tape.steps[count]));
    if (!name.empty()) return ", after module " + module(name);
  }
  return "";
}

}  // namespace

bool all_finite(const Tensor& t) {
  if (!is_float(t.dtype())) return true;
  std::atomic<bool> finite = true;
  dispatch(t.dtype(), [&](auto zero) {
    const auto* x = t.data<decltype(zero)>();
    parallel_for(t.numel(), 1 << 16, [&, x](std::int64_t begin, std::int64_t end) {
      if (!all_finite(x + begin, end - begin)) finite = false;
    });
  });
  return finite;
}

std::string broken_tensor(std::span<const std::pair<std::string, Tensor>> tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!all_finite(tensor)) return name;
  }
  return {};
}

void check_finite_results(const TapeRecord& tape, std::string_view op, Inputs inputs,
                          Inputs outputs) {
  // These make nothing, but choose among what they are given, such as the −∞ of a mask. A
  // conversion makes infinities of finite numbers only.
  if (op == "where" || op == "rows" || op == "clone") return;
  if (op == "to" && is_broken(inputs[0])) return;
  for (const Tensor& y : outputs) {
    if (is_handed_on(y, inputs) || !is_broken(y)) continue;
    std::vector<std::uint64_t> ids;
    std::string before;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ids.push_back(inputs[i].defined() ? inputs[i].id() : 0);
      if (!before.empty() || !is_broken(inputs[i])) continue;
      const std::string name = parameter_of(tape, std::span(ids).last(1));
      before = fmt::format("; its input {}{} has {} already", i,
                           name.empty() ? "" : " (" + name + ")", first_broken(inputs[i]));
    }
    fail("[{}] the forward made {}{}, as op {} of the tape{}", op, first_broken(y),
         place(tape, ids, tape.steps.size()), tape.steps.size(), before);
  }
}

void check_finite_gradients(const TapeRecord& tape, std::size_t i, Inputs dys, Inputs dxs) {
  const Step& step = *tape.steps[i];
  for (std::size_t k = 0; k < dxs.size(); ++k) {
    if (is_handed_on(dxs[k], dys) || !is_broken(dxs[k])) continue;
    const std::vector<std::uint64_t> ids = input_ids(step);
    const std::string name = parameter_of(tape, std::span(ids).subspan(k, 1));
    std::string before;
    for (const Tensor& dy : dys) {
      if (is_broken(dy)) {
        before = "; the gradient of its output has " + first_broken(dy) + " already";
        break;
      }
    }
    fail("[{}] the backward made {}, the gradient of input {}{}{}, at op {} of the tape{}",
         step.name, first_broken(dxs[k]), k, name.empty() ? "" : " (" + name + ")",
         place(tape, ids, i), i, before);
  }
}

}  // namespace tapegrad
