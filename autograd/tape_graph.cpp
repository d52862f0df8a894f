#include "tapegrad/autograd/tape_graph.h"

#include <unordered_map>
#include <unordered_set>

#include "tapegrad/autograd/internal/recomputation.h"
#include "tapegrad/autograd/module_names.h"
#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

class Builder {
 public:
  Builder(const TapeRecord& tape, std::span<const std::pair<std::string, Tensor>> names)
      : tape_(tape), modules_(names) {
    for (const auto& [name, tensor] : names) names_[tensor.id()] = name;
  }

  TapeGraph build() {
    for (const auto& step : tape_.steps) {
      check(step != nullptr, "this tape has run backward and freed what it had recorded");
      add(*step);
    }
    return std::move(graph_);
  }

 private:
  void add(const Step& step) {
    std::vector<std::uint64_t> ids;
    TapeGraph::Op op{.name = std::string(step.name),
                     .module = {},
                     .has_parameter = false,
                     .edges = {},
                     .inputs = {},
                     .outputs = {}};
    for (const Step::Slot& input : step.inputs) {
      ids.push_back(input.id);
      op.edges.push_back(edge_from(input));
      op.inputs.push_back(value_of(input));
    }
    const ModuleNames::Module module = modules_.next(ids);
    op.module = module.name;
    op.has_parameter = module.has_parameter;
    count_kept(step, op);
    for (const Step::Slot& output : step.outputs) {
      op.outputs.push_back(value_of(output));
      made_by_[output.id] = graph_.ops.size();
    }
    graph_.ops.push_back(std::move(op));
  }

  static TapeGraph::Value value_of(const Step::Slot& slot) {
    return {slot.shape, slot.dtype, slot.id != 0};
  }

  TapeGraph::Edge edge_from(const Step::Slot& input) {
    using From = TapeGraph::Edge::From;
    if (const auto op = made_by_.find(input.id); op != made_by_.end())
      return {From::op, op->second};
    const auto leaf = tape_.leaves.find(input.id);
    if (leaf == tape_.leaves.end()) return {};
    const auto [place, is_new] = leaves_.emplace(input.id, graph_.leaves.size());
    if (is_new) {
      const auto name = names_.find(input.id);
      graph_.leaves.push_back({name == names_.end() ? "" : name->second, input.shape, input.dtype,
                               leaf->second.requires_grad()});
    }
    return {From::leaf, place->second};
  }

  void count_kept(const Step& step, TapeGraph::Op& op) {
    for (const Saved::Kept& kept : step.saved.kept()) {
      if (kept.recomputation != nullptr) ++op.made_again;
    }
    for_each_held(step, [&](const Tensor& t) {
      const bool parameter = t.requires_grad() || names_.count(t.id()) > 0;
      if (!parameter && counted_.insert(t.id()).second) op.kept_bytes += t.bytes();
    });
  }

  const TapeRecord& tape_;
  ModuleNames modules_;
  std::unordered_map<std::uint64_t, std::string> names_;
  std::unordered_map<std::uint64_t, std::size_t> made_by_, leaves_;
  std::unordered_set<std::uint64_t> counted_;
  TapeGraph graph_;
};

}  // namespace

std::size_t TapeGraph::kept_bytes() const {
  std::size_t sum = 0;
  for (const Op& op : ops) sum += op.kept_bytes;
  return sum;
}

TapeGraph graph_of(const Tape& tape, std::span<const std::pair<std::string, Tensor>> names) {
  return Builder(tape.record(), names).build();
}

}  // namespace tapegrad
