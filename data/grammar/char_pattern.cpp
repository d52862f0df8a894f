// Regular expressions: read into a tree, made into an automaton with empty steps (Thompson, 1968),
// and then into a deterministic one.

#include <algorithm>
#include <map>
#include <string>

#include "tapegrad/data/grammar/internal/char_automaton.h"
#include "tapegrad/data/grammar/internal/pattern_reader.h"

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostSteps = 20'000;  // states with empty steps

// An automaton with empty steps. A step is taken with a character of a set, with none, or where the
// string begins or ends.
class StepAutomaton {
 public:
  StepAutomaton(const PatternNode& pattern, PatternWork& work) : work_(work) {
    // A match may begin and end anywhere: what is before and behind is any string.
    step(kStart, state(), Step::When::empty);
    step(kStart, kStart, Step::When::chars, &all_chars());
    step(kFound, kFound, Step::When::chars, &all_chars());
    build(pattern, 2, kFound);
  }

  CharAutomaton deterministic() {
    CharAutomaton automaton;
    std::map<std::vector<int>, int> numbers;
    std::vector<std::vector<int>> sets;
    const auto number_of = [&](std::vector<int> set) {
      const auto [at, is_new] = numbers.emplace(std::move(set), std::ssize(sets));
      if (is_new) {
        sets.push_back(at->first);
        check(sets.size() <= CharAutomaton::kMostStates, "the pattern needs more than {} states",
              +CharAutomaton::kMostStates);
      }
      return at->second;
    };
    number_of(closure({kStart}, true, false));
    std::size_t edges = 0;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const std::vector<int> set = sets[i];
      automaton.states.push_back({accepts(set), edges_of(set, number_of)});
      edges += automaton.states.back().edges.size();
      check(edges <= CharAutomaton::kMostEdges, "the pattern needs more than {} edges",
            +CharAutomaton::kMostEdges);
    }
    return automaton;
  }

 private:
  struct Step {
    enum class When { empty, chars, begin, end };
    int to;
    When when;
    const CharRanges* ranges;
  };

  int state() {
    check(steps_.size() < kMostSteps, "the pattern is too long: it repeats too much");
    steps_.emplace_back();
    return static_cast<int>(steps_.size()) - 1;
  }
  void step(int from, int to, Step::When when, const CharRanges* ranges = nullptr) {
    check(++step_count_ <= CharAutomaton::kMostEdges,
          "the pattern is too long: it repeats too much");
    steps_[static_cast<std::size_t>(from)].push_back({to, when, ranges});
  }

  void build(const PatternNode& node, int from, int to) {
    switch (node.kind) {
      case PatternNode::Kind::empty:
        return step(from, to, Step::When::empty);
      case PatternNode::Kind::begin:
        return step(from, to, Step::When::begin);
      case PatternNode::Kind::end:
        return step(from, to, Step::When::end);
      case PatternNode::Kind::chars:
        return step(from, to, Step::When::chars, &node.chars);
      case PatternNode::Kind::either:
        for (const PatternNode& part : node.parts) build(part, from, to);
        return;
      case PatternNode::Kind::sequence:
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          const int next = i + 1 == node.parts.size() ? to : state();
          build(node.parts[i], from, next);
          from = next;
        }
        return;
      case PatternNode::Kind::repeat:
        return build_repeat(node, from, to);
    }
  }

  // Loops have states of their own: nothing else may come back to them.
  void build_repeat(const PatternNode& node, int from, int to) {
    for (std::uint32_t i = 0; i < node.least; ++i) {
      const int next = state();
      build(node.parts[0], from, next);
      from = next;
    }
    if (node.most == ByteTerms::kEndless) {
      const int loop = state();
      step(from, loop, Step::When::empty);
      const int back = state();
      build(node.parts[0], loop, back);
      step(back, loop, Step::When::empty);
      return step(loop, to, Step::When::empty);
    }
    for (std::uint32_t i = node.least; i < node.most; ++i) {
      step(from, to, Step::When::empty);
      const int next = state();
      build(node.parts[0], from, next);
      from = next;
    }
    step(from, to, Step::When::empty);
  }

  // The states that empty steps reach.
  std::vector<int> closure(std::vector<int> open, bool at_begin, bool at_end) {
    std::vector<bool> seen(steps_.size());
    std::vector<int> set;
    work_.add(1 + steps_.size() / 64);
    while (!open.empty()) {
      const int state = open.back();
      open.pop_back();
      if (seen[static_cast<std::size_t>(state)]) continue;
      seen[static_cast<std::size_t>(state)] = true;
      set.push_back(state);
      work_.add(steps_[static_cast<std::size_t>(state)].size());
      for (const Step& step : steps_[static_cast<std::size_t>(state)]) {
        if (step.when == Step::When::empty || (step.when == Step::When::begin && at_begin) ||
            (step.when == Step::When::end && at_end)) {
          open.push_back(step.to);
        }
      }
    }
    // Once a match was found, nothing else matters.
    if (seen[kFound]) return {kFound};
    std::ranges::sort(set);
    return set;
  }

  bool accepts(const std::vector<int>& set) {
    return closure(set, false, true) == std::vector<int>{kFound};
  }

  template <class NumberOf>
  std::vector<CharAutomaton::Edge> edges_of(const std::vector<int>& set,
                                            const NumberOf& number_of) {
    std::map<char32_t, bool> cuts;  // where the characters of a step begin, and behind their end
    for (const int state : set) {
      for (const Step& step : steps_[static_cast<std::size_t>(state)]) {
        if (step.when != Step::When::chars) continue;
        for (const CharRange& range : *step.ranges) cuts[range.first] = cuts[range.last + 1] = true;
      }
    }
    std::vector<CharAutomaton::Edge> edges;
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      const auto next = std::next(cut);
      if (next == cuts.end()) break;
      std::vector<int> reached;
      for (const int state : set) {
        work_.add(steps_[static_cast<std::size_t>(state)].size());
        for (const Step& step : steps_[static_cast<std::size_t>(state)]) {
          if (step.when == Step::When::chars && has(*step.ranges, cut->first)) {
            reached.push_back(step.to);
          }
        }
      }
      if (reached.empty()) continue;
      edges.push_back({{cut->first, next->first - 1}, number_of(closure(reached, false, false))});
    }
    return edges;
  }

  static bool has(const CharRanges& ranges, char32_t c) {
    const auto behind = std::ranges::upper_bound(ranges, c, {}, &CharRange::first);
    return behind != ranges.begin() && std::prev(behind)->last >= c;
  }

  static constexpr int kStart = 0, kFound = 1;
  std::vector<std::vector<Step>> steps_{2};
  std::size_t step_count_ = 0;
  PatternWork& work_;
};

}  // namespace

CharAutomaton automaton_of_pattern(std::string_view pattern, PatternWork& work) {
  work.add(pattern.size());
  const PatternNode tree = read_pattern(pattern);
  return StepAutomaton(tree, work).deterministic();
}

}  // namespace tapegrad::data
