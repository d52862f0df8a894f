#include "tapegrad/nn/layers/module_summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "tapegrad/autograd/module_names.h"
#include "tapegrad/autograd/tape_graph.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::nn {
namespace {

using Parts = std::vector<ModulePart>;

Parts::iterator part_of(Parts& parts, const std::string& tensor) {
  const std::string name = module_of(tensor);
  return std::find_if(parts.begin(), parts.end(),
                      [&](const ModulePart& part) { return part.name == name; });
}

Parts parts_of(const NamedTensors& tensors) {
  Parts parts;
  for (const auto& [name, t] : tensors) {
    auto part = part_of(parts, name);
    if (part == parts.end()) part = parts.insert(part, {.name = module_of(name), .shapes = {}});
    part->shapes.push_back(t.shape());
    (t.requires_grad() ? part->parameters : part->fixed) += t.numel();
  }
  return parts;
}

// The record of forward() alone, whatever tapes are live.
TapeGraph graph_of_forward(const NamedTensors& tensors, const std::function<void()>& forward) {
  const DryRun dry;
  const TapePause pause;
  const Tape tape;
  forward();
  return graph_of(tape, tensors);
}

// True if the op makes no more of its input `i` than a weight in another form: it moves elements,
// as a transposition, or computes from each of them and numbers, as 1 + w.
bool is_still_weight(const TapeGraph::Op& op, std::size_t i) {
  constexpr std::array<std::string_view, 6> kMoves = {"reshape", "permute", "slice",
                                                      "rows",    "clone",   "to"};
  if (std::find(kMoves.begin(), kMoves.end(), op.name) != kMoves.end()) return true;
  if (op.name == "gather_rows" || op.outputs.front().shape != op.inputs[i].shape) return false;
  for (std::size_t k = 0; k < op.inputs.size(); ++k) {
    const bool is_number =
        op.edges[k].from == TapeGraph::Edge::From::outside && op.inputs[k].shape.rank() == 0;
    if (k != i && op.inputs[k].exists && !is_number) return false;
  }
  return true;
}

void find_outputs(const TapeGraph& graph, Parts& parts) {
  using From = TapeGraph::Edge::From;
  std::vector<std::optional<std::size_t>> weights(graph.ops.size());  // that ops made of leaves
  std::unordered_set<std::size_t> used;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const TapeGraph::Op& op = graph.ops[i];
    for (std::size_t k = 0; k < op.edges.size(); ++k) {
      const TapeGraph::Edge& edge = op.edges[k];
      const auto leaf = edge.from == From::leaf ? std::optional(edge.index)
                        : edge.from == From::op ? weights[edge.index]
                                                : std::nullopt;
      if (!leaf) continue;
      if (is_still_weight(op, k)) {
        weights[i] = leaf;
      } else if (used.insert(*leaf).second) {
        const auto part = part_of(parts, graph.leaves[*leaf].name);
        if (part != parts.end()) part->output = op.outputs.front().shape;
      }
    }
  }
}

std::int64_t sum_of(const Parts& parts, std::int64_t ModulePart::*member) {
  std::int64_t sum = 0;
  for (const ModulePart& part : parts) sum += part.*member;
  return sum;
}

}  // namespace

std::int64_t ModuleSummary::parameters() const { return sum_of(parts, &ModulePart::parameters); }
std::int64_t ModuleSummary::fixed() const { return sum_of(parts, &ModulePart::fixed); }

std::string ModuleSummary::str() const {
  const bool has_outputs = std::any_of(
      parts.begin(), parts.end(), [](const ModulePart& part) { return part.output.has_value(); });
  std::vector<std::vector<std::string>> lines{
      {"part", "shapes", "parameters", "fixed", has_outputs ? "output" : ""}};
  for (const ModulePart& part : parts) {
    lines.push_back({part.name, fmt::format("{}", fmt::join(part.shapes, ", ")),
                     grouped(part.parameters), grouped(part.fixed),
                     part.output ? fmt::format("{}", *part.output) : ""});
  }
  lines.push_back({"all", "", grouped(parameters()), grouped(fixed()), ""});
  return table_text("llrrl", lines) + fmt::format("\n{} parameters; all tensors take {}\n",
                                                  grouped(parameters()), size_text(bytes));
}

ModuleSummary module_summary(const NamedTensors& tensors, const std::function<void()>& forward) {
  ModuleSummary summary{.parts = parts_of(tensors)};
  for (const auto& [name, t] : tensors) summary.bytes += static_cast<double>(t.bytes());
  if (forward) find_outputs(graph_of_forward(tensors, forward), summary.parts);
  return summary;
}

}  // namespace tapegrad::nn
