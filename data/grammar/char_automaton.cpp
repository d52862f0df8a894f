#include "tapegrad/data/grammar/internal/char_automaton.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

std::vector<CharAutomaton::Edge> edges_to(int state) {
  std::vector<CharAutomaton::Edge> edges;
  for (const CharRange& range : all_chars()) edges.push_back({range, state});
  return edges;
}

// A tree of the strings that are left out. Behind its nodes, any character that does not go on in
// the tree leads to where all strings are accepted.
struct TreeNode {
  bool ends = false;
  std::map<char32_t, int> next = {};
};

std::vector<TreeNode> tree_of(std::span<const std::string> strings) {
  std::vector<TreeNode> tree(1);
  for (std::string_view rest : strings) {
    std::size_t node = 0;
    while (!rest.empty()) {
      const Utf8Char c = first_char(rest);
      rest.remove_prefix(c.size);
      const auto [at, is_new] =
          tree[node].next.emplace(c.code_point, static_cast<int>(tree.size()));
      node = static_cast<std::size_t>(at->second);
      if (is_new) tree.emplace_back();
    }
    tree[node].ends = true;
  }
  return tree;
}

// The edges of a state by where they lead, as terms of their characters.
class EdgeTerms {
 public:
  EdgeTerms(const CharAutomaton& automaton, JsonTexts& json) : json_(json) {
    for (const CharAutomaton::State& state : automaton.states) {
      std::map<int, CharRanges> ranges;
      for (const auto& [chars, to] : state.edges) {
        CharRanges& known = ranges[to];
        if (!known.empty() && known.back().last + 1 == chars.first) {
          known.back().last = chars.last;
        } else {
          known.push_back(chars);
        }
      }
      auto& edges = edges_.emplace_back();
      for (const auto& [to, chars] : ranges) {
        if (const Term term = char_term(chars); term != ByteTerms::kNothing) {
          edges.push_back({term, to});
        }
      }
    }
  }

  struct Edge {
    Term chars;
    int to;
  };
  const std::vector<Edge>& of(std::size_t state) const { return edges_[state]; }
  Term all() { return char_term(all_chars()); }

 private:
  Term char_term(const CharRanges& ranges) {
    std::vector<char32_t> key;
    for (const CharRange& range : ranges) key.insert(key.end(), {range.first, range.last});
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_[key] = ranges == all_chars() ? json_.any_char() : json_.char_of(ranges);
  }

  JsonTexts& json_;
  std::vector<std::vector<Edge>> edges_;
  std::map<std::vector<char32_t>, Term> known_;
};

// The states from which a string can still be accepted.
std::vector<bool> alive_states(const CharAutomaton& automaton, const EdgeTerms& edges) {
  const std::size_t n = automaton.states.size();
  std::vector<std::vector<std::size_t>> sources(n);
  std::vector<bool> alive(n);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < n; ++i) {
    for (const auto& edge : edges.of(i)) sources[static_cast<std::size_t>(edge.to)].push_back(i);
    if (automaton.states[i].accepts) open.push_back(i);
  }
  while (!open.empty()) {
    const std::size_t state = open.back();
    open.pop_back();
    if (alive[state]) continue;
    alive[state] = true;
    open.insert(open.end(), sources[state].begin(), sources[state].end());
  }
  return alive;
}

}  // namespace

CharAutomaton automaton_of_lengths(std::uint32_t least, std::uint32_t most, PatternWork& work) {
  const bool endless = most == ByteTerms::kEndless;
  const std::size_t count = endless ? least : most;
  check(count < CharAutomaton::kMostStates, "a length of {} beside a pattern: {} are the most",
        count, CharAutomaton::kMostStates - 1);
  work.add(count);
  CharAutomaton automaton;
  for (std::size_t i = 0; i <= count; ++i) {
    const bool last = i == count;
    automaton.states.push_back({i >= least, last && !endless
                                                ? std::vector<CharAutomaton::Edge>{}
                                                : edges_to(static_cast<int>(last ? i : i + 1))});
  }
  return automaton;
}

CharAutomaton automaton_without(std::span<const std::string> strings) {
  const std::vector<TreeNode> tree = tree_of(strings);
  const int other = static_cast<int>(tree.size());
  CharAutomaton automaton;
  for (const TreeNode& node : tree) {
    CharAutomaton::State state{!node.ends};
    for (CharRange range : all_chars()) {
      for (auto at = node.next.lower_bound(range.first);
           at != node.next.end() && at->first <= range.last; ++at) {
        if (range.first < at->first) {
          state.edges.push_back({{range.first, at->first - 1}, other});
        }
        state.edges.push_back({{at->first, at->first}, at->second});
        range.first = at->first + 1;
      }
      if (range.first <= range.last) state.edges.push_back({range, other});
    }
    automaton.states.push_back(std::move(state));
  }
  automaton.states.push_back({true, edges_to(other)});
  return automaton;
}

CharAutomaton both(const CharAutomaton& a, const CharAutomaton& b, PatternWork& work) {
  CharAutomaton result;
  std::map<std::pair<int, int>, int> numbers;
  std::vector<std::pair<int, int>> pairs;
  const auto number_of = [&](int of_a, int of_b) {
    const auto [at, is_new] = numbers.emplace(std::pair(of_a, of_b), std::ssize(pairs));
    if (is_new) pairs.emplace_back(of_a, of_b);
    check(pairs.size() <= CharAutomaton::kMostStates,
          "the pattern needs more than {} states together with what else is asked of the string",
          +CharAutomaton::kMostStates);
    return at->second;
  };
  number_of(0, 0);
  std::size_t edges = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& of_a = a.states[static_cast<std::size_t>(pairs[i].first)];
    const auto& of_b = b.states[static_cast<std::size_t>(pairs[i].second)];
    CharAutomaton::State state{of_a.accepts && of_b.accepts};
    auto x = of_a.edges.begin(), y = of_b.edges.begin();
    work.add(of_a.edges.size() + of_b.edges.size());
    while (x != of_a.edges.end() && y != of_b.edges.end()) {
      const char32_t first = std::max(x->chars.first, y->chars.first);
      const char32_t last = std::min(x->chars.last, y->chars.last);
      if (first <= last) state.edges.push_back({{first, last}, number_of(x->to, y->to)});
      if (x->chars.last == last) {
        ++x;
      } else {
        ++y;
      }
    }
    edges += state.edges.size();
    check(edges <= CharAutomaton::kMostEdges,
          "the pattern needs more than {} edges together with what else is asked of the string",
          +CharAutomaton::kMostEdges);
    result.states.push_back(std::move(state));
  }
  return result;
}

Term term_of(const CharAutomaton& automaton, ByteTerms& terms, JsonTexts& json) {
  EdgeTerms edges(automaton, json);
  const std::vector<bool> alive = alive_states(automaton, edges);
  if (!alive[0]) return ByteTerms::kNothing;
  std::vector<Term> rules(automaton.states.size());
  std::vector<bool> defined(automaton.states.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!alive[i]) continue;
    ByteSet first;
    for (const auto& edge : edges.of(i)) {
      if (alive[static_cast<std::size_t>(edge.to)]) first |= terms.first(edge.chars);
    }
    const bool all_to_itself = edges.of(i).size() == 1 && edges.of(i)[0].chars == edges.all() &&
                               edges.of(i)[0].to == static_cast<int>(i);
    defined[i] = all_to_itself || first.none();
    if (all_to_itself) {
      rules[i] = terms.repeat(edges.all(), 0, ByteTerms::kEndless);
    } else {
      rules[i] = first.none() ? ByteTerms::kEmpty : terms.rule(automaton.states[i].accepts, first);
    }
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!alive[i] || defined[i]) continue;
    std::vector<Term> ways;
    if (automaton.states[i].accepts) ways.push_back(ByteTerms::kEmpty);
    for (const auto& edge : edges.of(i)) {
      const auto to = static_cast<std::size_t>(edge.to);
      if (alive[to]) ways.push_back(terms.sequence(edge.chars, rules[to]));
    }
    terms.define(rules[i], terms.either(std::move(ways)));
  }
  return rules[0];
}

}  // namespace tapegrad::data
