#pragma once

// What the generated bindings are made of.

#include <pybind11/stl/filesystem.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/nn/init.h"

namespace tapegrad::python {

// With fewer elements, an op is over before another thread could use the GIL, while whoever lets go
// of it may wait for 5 ms to get it back.
inline constexpr std::int64_t kUnlockedElements = 4096;

inline std::int64_t elements_of(const Tensor& t) { return t.numel(); }
inline std::int64_t elements_of(const Number&) { return 0; }
inline std::int64_t elements_of(const Tensor* t) { return t == nullptr ? 0 : t->numel(); }
inline std::int64_t elements_of(const Parameters&) { return kUnlockedElements; }
inline std::int64_t elements_of(const std::filesystem::path&) { return kUnlockedElements; }
inline std::int64_t elements_of(const std::string& text) { return std::ssize(text); }
inline std::int64_t elements_of(const DecoderLayer&) { return kUnlockedElements; }
inline std::int64_t elements_of(const std::vector<Tensor>& all) {
  std::int64_t sum = 0;
  for (const Tensor& t : all) sum += t.numel();
  return sum;
}
template <class... Tensors>
std::int64_t elements(const Tensors&... tensors) {
  return (std::int64_t{0} + ... + elements_of(tensors));
}

// f(), without the GIL if there is enough to compute.
template <class F>
decltype(auto) run_op(std::int64_t elements, const F& f) {
  if (elements < kUnlockedElements) return f();
  const py::gil_scoped_release unlocked;
  return f();
}

// An object, after its own rules: those that have rules have validate().
template <class T>
T&& checked(T&& object) {
  if constexpr (requires { object.validate(); }) object.validate();
  return std::forward<T>(object);
}

// None stands for a tensor that is left out.
inline Tensor or_undefined(const Tensor* t) { return t == nullptr ? Tensor() : *t; }
inline py::object or_none(const py::object& object) { return object; }
inline py::object or_none(const Tensor& t) { return t.defined() ? py::cast(t) : py::none(); }
template <class T>
requires(std::is_arithmetic_v<T>) T or_none(T number) { return number; }

inline py::object or_none(const std::vector<std::int64_t>& numbers) { return py::cast(numbers); }
inline py::object or_none(const std::vector<Tensor>& all) {
  py::list parts;
  for (const Tensor& t : all) parts.append(or_none(t));
  return parts;
}

// Functions of Python's, as C++ takes them: f(x), f(*xs), f(*xs, rng) and f(i).
template <class... Arguments>
Tensor call_function(const Callable& f, const Arguments&... arguments) {
  const py::gil_scoped_acquire locked;
  return returned_tensor(f.handle()(arguments...));
}
inline py::tuple tuple_of(std::span<const Tensor> tensors) {
  py::tuple all(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) all[i] = or_none(tensors[i]);
  return all;
}
inline auto function_of_one(const Callable& f) {
  return [f](const Tensor& x) { return call_function(f, x); };
}
inline auto function_of_several(const Callable& f) {
  return [f](std::span<const Tensor> xs) {
    const py::gil_scoped_acquire locked;
    return returned_tensor(f.handle()(*tuple_of(xs)));
  };
}
inline auto function_with_rng(const Callable& f) {
  return [f](std::span<const Tensor> xs, Rng* rng) {
    if (rng == nullptr) return function_of_several(f)(xs);
    const py::gil_scoped_acquire locked;
    return returned_tensor(
        f.handle()(*tuple_of(xs), py::cast(rng, py::return_value_policy::reference)));
  };
}
inline auto function_of_example(const Callable& f) {
  return [f](std::int64_t example) { return call_function(f, example); };
}

// f(rows, rng), which returns other rows.
inline auto function_of_rows(const Callable& f) {
  return [f](const std::vector<Tensor>& rows, Rng& rng) {
    const py::gil_scoped_acquire locked;
    const py::object changed = f.handle()(rows, Rng(rng));  // a copy: Python may hold on to it
    const auto read = converted<std::vector<Tensor>>(changed, true);
    if (!read) throw py::type_error("transform must return a list of tensors");
    return *read;
  };
}

// A loss: a number, or a tensor of one element.
inline auto function_of_loss(const Callable& f) {
  return [f]() -> double {
    const py::gil_scoped_acquire locked;
    const py::object loss = f.handle()();
    if (py::isinstance<Tensor>(loss)) return loss.cast<Tensor>().item();
    Number number;
    if (!read_number(loss, number)) throw py::type_error("the function must return its loss");
    return number.value;
  };
}

// For nn.init, whose functions fill a tensor.
inline py::module_ init_of(const py::module_& m) {
  return py::reinterpret_borrow<py::module_>(m.attr("_nn").attr("init"));
}
inline Tensor& filled(Tensor& x, const nn::Init& init, Rng& rng) {
  check_untracked("nn.init", "x", x);
  nn::refill(x, init, rng);
  return x;
}
inline Tensor& filled(Tensor& x, const nn::Init& init) {
  Rng unused(0);
  return filled(x, init, unused);
}

// Enums are strings in Python. The generator writes the names of each.
template <class E>
using NameOf = std::pair<std::string_view, E>;
template <class E>
inline constexpr std::array<NameOf<E>, 0> kNames;

// Error naming the argument and what it may be.
template <class E>
E value_of(const std::string& name, std::string_view argument) {
  std::string names;
  for (const auto& [known, value] : kNames<E>) {
    if (known == name) return value;
    names += (names.empty() ? "'" : ", '") + std::string(known) + "'";
  }
  fail("{} is '{}', but must be one of {}", argument, name, names);
}

// Results of several tensors are named tuples, whose classes live as long as the process.
template <class R>
inline PyObject* result_type = nullptr;

template <class R>
void declare_result(py::module_& m, const char* name, const char* fields) {
  py::object type = py::module_::import("collections").attr("namedtuple")(name, fields);
  type.attr("__module__") = m.attr("__name__");
  m.attr(name) = type;
  result_type<R> = type.release().ptr();
}

template <class R, class... Fields>
py::object make_result(const Fields&... fields) {
  return py::reinterpret_borrow<py::object>(result_type<R>)(or_none(fields)...);
}

template <class T>
T to_python(T result) {
  return result;
}
inline Parameters to_python(NamedTensors named) { return {std::move(named)}; }
inline py::object to_python(const std::string& text) { return text_of_bytes(text); }

}  // namespace tapegrad::python
