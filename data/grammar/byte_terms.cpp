#include "tapegrad/data/grammar/internal/byte_terms.h"

#include <algorithm>

namespace tapegrad::data {
namespace {

constexpr std::size_t kMostDerived = std::size_t{1} << 18;  // remembered; then all are forgotten
// Choices within choices are joined, so that equal ones become one term; long ones stay, since each
// of n tails of a list would otherwise repeat the rest of it.
constexpr std::uint32_t kMostJoined = 16;
constexpr int kMostVisits = 1024;  // of one shortened()

std::size_t mixed(std::size_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15U ^ (hash >> 29);
}

}  // namespace

ByteTerms::ByteTerms(std::size_t most_terms, const ByteSet& alphabet)
    : most_terms_(most_terms), alphabet_(alphabet), table_(1024) {
  const std::uint32_t none = set_number(ByteSet());
  nodes_.push_back({Kind::nothing, false, none});
  nodes_.push_back({Kind::empty, true, none});
}

std::uint32_t ByteTerms::set_number(const ByteSet& set) {
  const auto [at, is_new] = set_numbers_.emplace(set, static_cast<std::uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return at->second;
}

std::uint32_t ByteTerms::joined(std::uint32_t a, std::uint32_t b) {
  if (a == b) return a;
  const std::uint64_t key = std::uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  const auto found = joined_.find(key);
  if (found != joined_.end()) return found->second;
  return joined_[key] = set_number(sets_[a] | sets_[b]);
}

std::size_t ByteTerms::hash_of(const Node& node) const {
  std::size_t hash = mixed(0, static_cast<std::uint64_t>(node.kind));
  if (node.kind == Kind::either) {
    for (const Term member : members(node)) hash = mixed(hash, member);
    return hash;
  }
  hash = mixed(hash, std::uint64_t{node.a} << 32 | node.b);
  return mixed(hash, std::uint64_t{node.least} << 32 | node.most);
}

bool ByteTerms::same(const Node& a, const Node& b) const {
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::either) return std::ranges::equal(members(a), members(b));
  return a.a == b.a && a.b == b.b && a.least == b.least && a.most == b.most;
}

void ByteTerms::grow_table() {
  table_.assign(table_.size() * 2, kNothing);
  for (Term term = 2; term < nodes_.size(); ++term) {
    std::size_t place = hash_of(nodes_[term]) & (table_.size() - 1);
    while (table_[place] != kNothing) place = (place + 1) & (table_.size() - 1);
    table_[place] = term;
  }
}

Term ByteTerms::interned(const Node& node) {
  std::size_t place = hash_of(node) & (table_.size() - 1);
  while (table_[place] != kNothing) {
    if (same(nodes_[table_[place]], node)) return table_[place];
    place = (place + 1) & (table_.size() - 1);
  }
  if (nodes_.size() >= most_terms_) {
    throw TermsFull(fmt::format("more than {} parts are needed", most_terms_));
  }
  const auto term = static_cast<Term>(nodes_.size());
  table_[place] = term;
  nodes_.push_back(node);
  if (nodes_.size() * 2 > table_.size()) grow_table();
  return term;
}

Term ByteTerms::bytes(const ByteSet& set) {
  const ByteSet usable = set & alphabet_;
  if (usable.none()) return kNothing;
  const std::uint32_t number = set_number(usable);
  return interned({Kind::bytes, false, number, number});
}

Term ByteTerms::range(std::uint8_t first, std::uint8_t last) {
  ByteSet set;
  for (int b = first; b <= last; ++b) set.set(static_cast<std::size_t>(b));
  return bytes(set);
}

Term ByteTerms::one_of(std::string_view characters) {
  ByteSet set;
  for (const char c : characters) set.set(static_cast<std::uint8_t>(c));
  return bytes(set);
}

Term ByteTerms::text(std::string_view text) {
  Term term = kEmpty;
  for (auto c = text.rbegin(); c != text.rend(); ++c) {
    term = sequence(byte(static_cast<std::uint8_t>(*c)), term);
  }
  return term;
}

Term ByteTerms::texts(std::vector<Followed> texts) {
  std::ranges::sort(texts, {}, &Followed::text);
  return this->texts(texts, 0);
}

// Of texts that agree before `from`: a tree of what they have in common.
Term ByteTerms::texts(std::span<const Followed> sorted, std::size_t from) {
  const std::string_view front = sorted.front().text, back = sorted.back().text;
  std::size_t common = from;
  while (common < std::min(front.size(), back.size()) && front[common] == back[common]) ++common;
  std::vector<Term> branches;
  for (std::size_t begin = 0; begin < sorted.size();) {
    if (sorted[begin].text.size() == common) {  // it ends here
      branches.push_back(sorted[begin++].next);
      continue;
    }
    std::size_t end = begin + 1;
    while (end < sorted.size() && sorted[end].text[common] == sorted[begin].text[common]) ++end;
    const auto branch = sorted.subspan(begin, end - begin);
    branches.push_back(branch.size() == 1
                           ? sequence(text(branch[0].text.substr(common)), branch[0].next)
                           : texts(branch, common));
    begin = end;
  }
  return sequence(text(front.substr(from, common - from)), either(std::move(branches)));
}

Term ByteTerms::sequence(Term first, Term second) {
  if (first == kNothing || second == kNothing) return kNothing;
  if (first == kEmpty) return second;
  if (second == kEmpty) return first;
  // The next byte is then always in front, however deep the nesting.
  std::vector<Term> parts;
  while (nodes_[first].kind == Kind::sequence) {
    parts.push_back(nodes_[first].a);
    first = nodes_[first].b;
  }
  parts.push_back(first);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const Node& head = nodes_[*part];
    const bool may_end = head.may_end && nodes_[second].may_end;
    const std::uint32_t begin =
        head.may_end ? joined(head.first, nodes_[second].first) : head.first;
    second = interned({Kind::sequence, may_end, begin, *part, second});
  }
  return second;
}

Term ByteTerms::sequence(std::initializer_list<Term> terms) {
  Term all = kEmpty;
  for (auto term = std::rbegin(terms); term != std::rend(terms); ++term) {
    all = sequence(*term, all);
  }
  return all;
}

Term ByteTerms::either(std::vector<Term> terms) {
  std::vector<Term> flat;
  for (const Term term : terms) {
    const Node& node = nodes_[term];
    if (node.kind == Kind::either && node.b <= kMostJoined) {
      const auto inner = members(node);
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else if (term != kNothing) {
      flat.push_back(term);
    }
  }
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return kNothing;
  if (flat.size() == 1) return flat[0];
  bool may_end = false;
  std::uint32_t first = nodes_[kNothing].first;
  for (const Term term : flat) {
    may_end |= nodes_[term].may_end;
    first = joined(first, nodes_[term].first);
  }
  const std::size_t place = members_.size();
  if (place + flat.size() > 8 * most_terms_) throw TermsFull("the choices are too many");
  members_.insert(members_.end(), flat.begin(), flat.end());
  const std::size_t before = nodes_.size();
  const Term term = interned({Kind::either, may_end, first, static_cast<std::uint32_t>(place),
                              static_cast<std::uint32_t>(flat.size())});
  if (nodes_.size() == before) members_.resize(place);  // it was there
  return term;
}

Term ByteTerms::repeat(Term item, std::uint32_t least, std::uint32_t most) {
  check(item == kNothing || !nodes_[item].may_end, "[grammar] an empty text cannot be repeated");
  if (least > most) return kNothing;
  if (most == 0) return kEmpty;
  if (item == kNothing) return least == 0 ? kEmpty : kNothing;
  return interned({Kind::repeat, least == 0, nodes_[item].first, item, 0, least, most});
}

Term ByteTerms::rule(bool may_end, const ByteSet& first) {
  const std::uint32_t number = set_number(first & alphabet_);
  // The number makes it a term of its own.
  return interned({Kind::rule, may_end, number, 0, static_cast<std::uint32_t>(nodes_.size())});
}

void ByteTerms::define(Term rule, Term body) { nodes_[rule].least = body; }

Term ByteTerms::after(Term term, std::uint8_t byte) {
  const Node& node = nodes_[term];
  if (!sets_[node.first][byte]) return kNothing;
  if (node.kind == Kind::bytes) return kEmpty;
  if (node.kind == Kind::sequence && nodes_[node.a].kind == Kind::bytes) return node.b;
  const std::uint64_t key = std::uint64_t{term} << 8 | byte;
  const auto found = derived_.find(key);
  if (found != derived_.end()) return found->second;
  const Term result = derived(term, byte);
  if (derived_.size() >= kMostDerived) derived_.clear();
  return derived_[key] = result;
}

// Copies the node: building terms moves them.
Term ByteTerms::derived(Term term, std::uint8_t byte) {
  const Node node = nodes_[term];
  if (node.kind == Kind::sequence) {
    const bool skips = nodes_[node.a].may_end;
    const Term first = sequence(after(node.a, byte), node.b);
    return skips ? either({first, after(node.b, byte)}) : first;
  }
  if (node.kind == Kind::either) {
    std::vector<Term> results;
    for (std::uint32_t i = 0; i < node.b; ++i) {
      const Term member = members_[node.a + i];
      if (sets_[nodes_[member].first][byte]) results.push_back(after(member, byte));
    }
    return either(std::move(results));
  }
  if (node.kind == Kind::repeat) {
    const std::uint32_t most = node.most == kEndless ? kEndless : node.most - 1;
    return sequence(after(node.a, byte), repeat(node.a, node.least - (node.least > 0), most));
  }
  return after(node.least, byte);  // a rule's body
}

Term ByteTerms::after(Term term, std::string_view text) {
  for (const char c : text) term = after(term, static_cast<std::uint8_t>(c));
  return term;
}

Term ByteTerms::shortened(Term term, std::uint32_t bytes) {
  int visits = 0;
  return shortened(term, bytes, visits);
}

// A term that is not visited keeps its counts, which is right, too.
Term ByteTerms::shortened(Term term, std::uint32_t bytes, int& visits) {
  if (++visits > kMostVisits) return term;
  const Node node = nodes_[term];
  if (node.kind == Kind::sequence) {
    const Term first = shortened(node.a, bytes, visits);
    return sequence(first, shortened(node.b, bytes, visits));
  }
  if (node.kind == Kind::either) {
    std::vector<Term> terms;
    for (std::uint32_t i = 0; i < node.b; ++i) {
      terms.push_back(shortened(members_[node.a + i], bytes, visits));
    }
    return either(std::move(terms));
  }
  if (node.kind != Kind::repeat) return term;
  // Each repetition takes a byte or more.
  return repeat(node.a, std::min(node.least, bytes + 1), node.most > bytes ? kEndless : node.most);
}

std::uint32_t ByteTerms::repeats(Term term, Term item) const {
  const Node& node = nodes_[term];
  const Node& head = node.kind == Kind::sequence ? nodes_[node.a] : node;
  return head.kind == Kind::repeat && head.a == item ? head.most : 0;
}

}  // namespace tapegrad::data
