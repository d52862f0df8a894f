#include "tapegrad/autograd/onnx/export_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/autograd/onnx/internal/recorded_nodes.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad {
namespace {

using Function = std::function<std::vector<Tensor>(Inputs)>;

OnnxType type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return OnnxType::f32;
    case DType::f64:
      return OnnxType::f64;
    case DType::i32:
      return OnnxType::i32;
    case DType::i64:
      return OnnxType::i64;
    case DType::u8:
      return OnnxType::u8;
    case DType::boolean:
      return OnnxType::boolean;
  }
  fail("[export_onnx] ONNX has no type for {}", name_of(dtype));
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.id() == b.id() ||
         (a.shape() == b.shape() && a.dtype() == b.dtype() && bytes_of(a) == bytes_of(b));
}

// True if a tensor that the op has used, made or kept was written to afterwards.
bool was_changed(const Step& step) {
  const std::uint64_t versions =
      sum_of_versions(step.input_tensors) + sum_of_versions(step.onnx->outputs);
  const Saved::AllKept& kept = step.saved.kept();
  return versions != step.onnx->versions ||
         std::any_of(kept.begin(), kept.end(), [](const Saved::Kept& k) {
           return k.tensor.defined() && k.tensor.version() != k.version;
         });
}

// A graph to which the ops of a function are written in the order in which they ran.
class FunctionGraph {
 public:
  // A tensor that is no input and no parameter, and the op that used it.
  struct Use {
    std::string op;
    Tensor constant;
    std::uint32_t version;  // of its elements, when it was used
  };

  FunctionGraph(OnnxGraph& graph, const OnnxNames& names) : names_(names), graph_(graph) {
    for (const auto& [name, t] : names.parameters) {
      names_of_parameters_.emplace(data_of(t), name);
      graph.reserve(name);
    }
    for (const std::string& name : names.inputs) graph.reserve(name);
    for (const std::string& name : names.outputs) graph.reserve(name);
  }

  void know(const Tensor& t, const OnnxValue& value) {
    known_[t.id()] = value;
    known_data_.emplace(data_of(t), std::pair(t, value));
  }

  struct Result {
    Tensor y;
    OnnxValue value;
  };
  // Writes the ops of f, whose inputs the graph knows or takes for constants.
  std::vector<Result> nodes(const Function& f, Inputs inputs) {
    const Recorded recorded = record(f, inputs);
    for (const auto& step : recorded.steps) write(*step);
    std::vector<Result> results;
    for (const Tensor& y : recorded.results) results.push_back({y, value_of(y, "the result")});
    return results;
  }

  // A whole graph, with inputs and outputs.
  void write(const Function& f, const std::vector<Tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string name = named("input", names_.inputs, i, inputs.size());
      know(inputs[i], graph_.input(name, type_of(inputs[i].dtype()), sizes_of(inputs[i])));
    }
    const std::vector<Result> results = nodes(f, inputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto& [y, value] = results[i];
      const std::string name = named("output", names_.outputs, i, results.size());
      graph_("Identity", {value}, {}, name);
      graph_.output(name, type_of(y.dtype()), sizes_of(y));
    }
  }

  const std::vector<Use>& uses() const { return uses_; }

 private:
  class Call;
  struct Recorded {
    std::vector<std::shared_ptr<Step>> steps;  // that the results need, oldest first
    std::vector<Tensor> results;
  };
  // Where the elements are, and how many: views and detach() share them with their tensor.
  using Data = std::pair<const char*, std::int64_t>;
  static Data data_of(const Tensor& t) { return {bytes_of(t).data(), t.numel()}; }

  static std::vector<OnnxSize> sizes_of(const Tensor& t) {
    return {t.shape().begin(), t.shape().end()};
  }

  std::string claimed(std::string name) {
    check(!name.empty(), "[export_onnx] a name is empty");
    check(taken_.insert(name).second, "[export_onnx] two tensors have the name '{}'", name);
    return name;
  }
  // `what`_0 and so on, but none that a caller has given.
  std::string made(std::string_view what, int& next) {
    std::string name;
    do {
      name = fmt::format("{}_{}", what, next++);
    } while (graph_.is_reserved(name));
    return claimed(name);
  }
  std::string named(std::string_view what, const std::vector<std::string>& given, std::size_t i,
                    std::size_t count) {
    check(given.empty() || given.size() == count, "[export_onnx] {} names for {} {}s", given.size(),
          count, what);
    return claimed(given.empty() ? fmt::format("{}_{}", what, i) : given[i]);
  }

  Recorded record(const Function& f, Inputs inputs) const {
    Recorded recorded;
    const std::uint64_t versions = sum_of_versions(inputs);
    {
      Tape tape({.checkable = true});  // whose steps keep their inputs and rows
      for (const Tensor& t : inputs) {
        if (t.defined() && is_float(t.dtype())) tape.watch(t);
      }
      // Ids are not tracked: what they choose from is, even if it is not trained.
      for (const auto& [name, t] : names_.parameters) {
        if (is_float(t.dtype())) tape.watch(t);
      }
      recorded.results = f(inputs);
      recorded.steps = tape.record().steps;
    }
    check(sum_of_versions(inputs) == versions,
          "[export_onnx] the function writes to one of its inputs, which a graph cannot say: clone "
          "it before");
    std::set<Data> needed;
    for (const Tensor& t : recorded.results) {
      check(t.defined(), "[export_onnx] a result is undefined");
      needed.insert(data_of(t));
    }
    const auto is_needed = [&](const Tensor& t) {
      return t.defined() && needed.count(data_of(t)) != 0;
    };
    for (auto step = recorded.steps.rbegin(); step != recorded.steps.rend(); ++step) {
      const std::vector<Tensor>& outputs = (*step)->onnx->outputs;
      if (std::none_of(outputs.begin(), outputs.end(), is_needed)) {
        step->reset();
        continue;
      }
      check(!was_changed(**step),
            "[export_onnx] a tensor that {} uses or makes was changed in place afterwards, which a "
            "graph cannot say: clone it before changing it",
            (*step)->name);
      for (const Tensor& t : (*step)->input_tensors) {
        if (t.defined()) needed.insert(data_of(t));
      }
    }
    std::erase(recorded.steps, nullptr);
    return recorded;
  }

  void write(const Step& step);

  OnnxValue value_of(const Tensor& t, std::string_view op) {
    if (const auto known = known_.find(t.id()); known != known_.end()) return known->second;
    const auto shared = known_data_.find(data_of(t));
    if (shared == known_data_.end()) {
      const OnnxValue value = constant(t, op);
      know(t, value);
      return value;
    }
    const auto& [other, value] = shared->second;
    if (other.shape() == t.shape()) return value;
    const OnnxWholes sizes(t.shape().begin(), t.shape().end());
    return graph_("Reshape", {value, graph_.wholes(sizes)});
  }

  OnnxValue constant(const Tensor& t, std::string_view op) {
    const auto given = names_of_parameters_.find(data_of(t));
    if (given != names_of_parameters_.end()) return stored(t, claimed(given->second));
    if (t.requires_grad()) return stored(t, made("parameter", parameters_));
    uses_.push_back({std::string(op), t, t.version()});
    if (t.numel() == 1) return graph_.constant(type_of(t.dtype()), t.shape(), bytes_of(t));
    for (const auto& [value, other] : constants_) {
      if (is_same(t, other)) return value;
    }
    constants_.emplace_back(made("values", values_), t);
    return stored(t, constants_.back().first);
  }

  OnnxValue stored(const Tensor& t, const std::string& name) {
    return graph_.weight({name, type_of(t.dtype()), t.shape(), t.bytes(),
                          [t](FileWriter& file) { file.write(bytes_of(t)); }});
  }

  const OnnxNames& names_;
  OnnxGraph& graph_;
  std::set<std::string> taken_;
  std::map<Data, std::string> names_of_parameters_;
  std::unordered_map<std::uint64_t, OnnxValue> known_;
  std::map<Data, std::pair<Tensor, OnnxValue>> known_data_;  // it keeps them, and their places
  std::vector<std::pair<OnnxValue, Tensor>> constants_;
  int parameters_ = 0, values_ = 0;  // that got names here
  std::vector<Use> uses_;
};

class FunctionGraph::Call final : public OnnxCall {
 public:
  Call(FunctionGraph& graph, const Step& step) : graph_(graph), op_(step.name) {
    tensors = step.input_tensors;
    y_shape = step.outputs[0].shape;
  }

  OnnxValue operator()(std::string_view op, const std::vector<OnnxValue>& inputs,
                       const std::vector<OnnxAttribute>& attributes) override {
    std::vector<OnnxValue> given = inputs;
    while (!given.empty() && given.back().empty()) given.pop_back();
    return graph_.graph_(op, given, attributes);
  }
  OnnxValue value(const Tensor& t) override { return graph_.value_of(t, op_); }
  OnnxValue number(double value) override {
    return graph_.value_of(Tensor::scalar(value, tensors.at(0).dtype()), op_);
  }
  OnnxValue wholes(const OnnxWholes& values) override { return graph_.graph_.wholes(values); }
  OnnxValue cast(const OnnxValue& x, DType to) override {
    return (*this)("Cast", {x}, {{"to", static_cast<std::int64_t>(type_of(to))}});
  }
  OnnxValue composed(const std::function<Tensor(Inputs)>& f) override {
    return graph_.nodes([&](Inputs x) { return std::vector{f(x)}; }, tensors)[0].value;
  }

 private:
  FunctionGraph& graph_;
  std::string_view op_;
};

void FunctionGraph::write(const Step& step) {
  const OnnxRow& row = step.onnx->row;
  check(row.exists(),
        "[{}] this op cannot be written to ONNX: it has no row for that (OpOptions::onnx)",
        step.name);
  check(step.outputs.size() == 1,
        "[{}] this op cannot be written to ONNX: it has {} outputs, and a row is for one",
        step.name, step.outputs.size());
  const Step::Slot& y = step.outputs[0];
  check(y.shape.numel() > 0, "[{}] a result of shape {} has no elements to write to ONNX",
        step.name, y.shape);
  Call call(*this, step);
  know(step.onnx->outputs[0], row.write ? row.write(call) : call(row.op, call.inputs(), {}));
}

// The elements in reverse order; floats times `factor`, a little further from 0.
Tensor with_other_values(const Tensor& t, double factor) {
  Tensor other = t.clone();
  dispatch_all(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const x = other.mutable_data<T>();
    std::reverse(x, x + other.numel());
    if constexpr (std::is_floating_point_v<T>) {
      for (std::int64_t i = 0; i < other.numel(); ++i)
        x[i] = static_cast<T>(factor) * (x[i] + T{0.125});
    }
  });
  return other;
}

struct Written {
  OnnxGraph graph;
  std::vector<FunctionGraph::Use> uses;
};

Written written(const Function& f, const std::vector<Tensor>& inputs, const OnnxNames& names) {
  Written result;
  FunctionGraph graph(result.graph, names);
  graph.write(f, inputs);
  result.uses = graph.uses();
  return result;
}

// Error if the graphs differ in more than what they are given.
void check_same(const Written& first, const Written& again) {
  for (std::size_t i = 0; i < std::min(first.uses.size(), again.uses.size()); ++i) {
    const auto& [op, t, version] = first.uses[i];
    if (is_same(t, again.uses[i].constant)) continue;
    fail(
        "[export_onnx] {} uses a tensor of shape {} that was another one when the function ran "
        "again, on other inputs: it comes from them by what no tape records (comparisons, "
        "integers), or from a random draw, and would be a constant in the graph",
        op, t.shape());
  }
  check(first.graph.message().bytes() == again.graph.message().bytes(),
        "[export_onnx] the function called other ops when it ran again, on other inputs");
}

}  // namespace

OnnxValue recorded_nodes(OnnxGraph& graph, const OnnxValue& x,
                         const std::function<Tensor(const Tensor&)>& f) {
  const TapePause unrecorded;
  const OnnxNames unnamed;
  const Tensor example = Tensor::ones({2});
  FunctionGraph nodes(graph, unnamed);
  nodes.know(example, x);
  return nodes.nodes([&](Inputs in) { return std::vector{f(in[0])}; }, {&example, 1})[0].value;
}

void export_onnx(const std::filesystem::path& file,
                 const std::function<std::vector<Tensor>(Inputs)>& f,
                 const std::vector<Tensor>& inputs, const OnnxNames& names) {
  const TapePause unrecorded;
  std::vector<Tensor> own;  // so that a parameter may be an input, and one tensor two
  for (const Tensor& t : inputs) {
    check(t.defined(), "[export_onnx] an input is undefined");
    own.push_back(t.detach());
  }
  const Written first = written(f, own, names);
  for (const double factor : {0.75, -0.75}) {
    std::vector<Tensor> others;
    for (const Tensor& t : own) others.push_back(with_other_values(t, factor));
    Written again;
    try {
      again = written(f, others, names);
    } catch (const Error&) {
      continue;  // f does not take such values
    }
    check_same(first, again);
  }
  for (const auto& [op, t, version] : first.uses) {
    check(
        t.version() == version,
        "[export_onnx] {} uses a tensor of shape {} that the function writes to whenever it runs, "
        "and that would be a constant in the graph: make a new tensor in each run",
        op, t.shape());
  }
  write_onnx(file, first.graph);
}

void export_onnx(const std::filesystem::path& file, const std::function<Tensor(Inputs)>& f,
                 const std::vector<Tensor>& inputs, const OnnxNames& names) {
  export_onnx(
      file, [&](Inputs in) { return std::vector{f(in)}; }, inputs, names);
}

}  // namespace tapegrad
