#include "tapegrad/optim/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "tapegrad/autograd/module_names.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/text/internal/name_pattern.h"
#include "tapegrad/base/text/internal/number_text.h"
#include "tapegrad/optim/internal/shares.h"

namespace tapegrad::optim {
namespace {

const char* const kLrScale = "--lr-scale";
const char* const kDecay = "--decay";
const char* const kOptimizerFor = "--optimizer-for";

// The biases of experts stand in rows, and are biases all the same.
bool is_matrix(const std::string& name, const Tensor& t) {
  return t.rank() >= 2 && !name.ends_with(".bias");
}

// A rule's pattern, and what is behind the last '='.
struct ParsedRule {
  std::string pattern, value;

  bool names(const std::string& name, const Tensor& t) const {
    if (pattern == "matrices") return is_matrix(name, t);
    if (pattern == "vectors") return !is_matrix(name, t);
    return fits_pattern(pattern, name);
  }
};

std::vector<ParsedRule> parse_rules(std::string_view option, const std::vector<std::string>& rules,
                                    std::string_view example) {
  constexpr std::size_t most = 1000;
  check(rules.size() <= most, "{}: there are {} rules, which is more than {}", option, rules.size(),
        most);
  std::vector<ParsedRule> parsed;
  for (const std::string& rule : rules) {
    const std::size_t at = rule.rfind('=');
    check(at != rule.npos, "{}: '{}' is not PATTERN=X, such as {}", option, rule, example);
    parsed.push_back({rule.substr(0, at), rule.substr(at + 1)});
    check_pattern(option, parsed.back().pattern);
  }
  return parsed;
}

double parse_factor(std::string_view option, const ParsedRule& rule) {
  const std::optional<double> value = number_of<double>(rule.value);
  check(value && std::isfinite(*value) && *value >= 0,
        "{}: '{}={}' needs a number of at least 0 behind the =", option, rule.pattern, rule.value);
  return *value;
}

OptimizerId parse_optimizer(const ParsedRule& rule) {
  try {
    return optimizer_named(rule.value);
  } catch (const Error& error) {
    fail("{}: {}", kOptimizerFor, error.what());
  }
}

// The rules of one option, with their values.
template <class T>
struct Rules {
  std::string_view option;
  std::vector<std::pair<ParsedRule, T>> rules;

  // The value of the last rule that names the parameter, or `otherwise`.
  T of(const std::string& name, const Tensor& t, T otherwise) const {
    for (const auto& [rule, value] : rules) {
      if (rule.names(name, t)) otherwise = value;
    }
    return otherwise;
  }
  void check_used(const NamedTensors& parameters) const {
    for (const auto& [rule, value] : rules) {
      const bool used =
          std::any_of(parameters.begin(), parameters.end(),
                      [&, &rule = rule](const auto& p) { return rule.names(p.first, p.second); });
      if (used) continue;
      std::vector<std::string> names;
      for (const auto& parameter : parameters) names.push_back(parameter.first);
      fail("{}: '{}' names no parameter that is trained; there are {}", option, rule.pattern,
           first_names(names));
    }
  }
};

struct AllRules {
  Rules<double> lr_scale, decay;
  Rules<OptimizerId> optimizer;
};

AllRules parse(const GroupRules& rules) {
  AllRules all{{kLrScale, {}}, {kDecay, {}}, {kOptimizerFor, {}}};
  for (const ParsedRule& r : parse_rules(kLrScale, rules.lr_scale, "'wte*=0.5'")) {
    all.lr_scale.rules.emplace_back(r, parse_factor(kLrScale, r));
  }
  for (const ParsedRule& r : parse_rules(kDecay, rules.decay, "'wte*=0'")) {
    all.decay.rules.emplace_back(r, parse_factor(kDecay, r));
  }
  for (const ParsedRule& r : parse_rules(kOptimizerFor, rules.optimizer_for, "'wte*=sgd'")) {
    all.optimizer.rules.emplace_back(r, parse_optimizer(r));
  }
  return all;
}

// Adds parameters one by one, each to the group that is like its own.
class Grouping {
 public:
  explicit Grouping(std::shared_ptr<const Optimizer> main) { all_.main = std::move(main); }
  void add(const ParameterGroup& like) {
    const auto found =
        std::find_if(all_.groups.begin(), all_.groups.end(), [&](const ParameterGroup& g) {
          return g.optimizer == like.optimizer && g.lr_scale == like.lr_scale &&
                 g.weight_decay == like.weight_decay;
        });
    all_.group_of.push_back(static_cast<std::size_t>(found - all_.groups.begin()));
    if (found == all_.groups.end()) all_.groups.push_back(like);
  }
  ParameterGroups take() { return std::move(all_); }

 private:
  ParameterGroups all_;
};

}  // namespace

bool leaves_parameters(const Optimizer& optimizer) { return !optimizer.suits("", {1}); }

std::vector<OptimizerId> GroupRules::used() const {
  std::vector<OptimizerId> ids{optimizer};
  const auto add = [&](OptimizerId id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  for (const auto& [rule, id] : parse(*this).optimizer.rules) add(id);
  // With default options, which are valid: validate() asks for the ids that are used.
  const OptimizerSettings defaults;
  if (leaves_parameters(*defaults.make(optimizer))) add(OptimizerId{});
  return ids;
}

bool GroupRules::plain() const {
  return optimizer == OptimizerId{} && lr_scale.empty() && decay.empty() && optimizer_for.empty();
}

void GroupRules::validate() const {
  check_numbers("GroupRules", {{"weight_decay", weight_decay, at_least(0)}});
  for (const OptimizerId id : used()) {
    const auto made = settings.make(id);
    check(!cautious_decay || made->decays_cautiously(),
          "cautious_decay is not for {}, which adds weight decay to the gradient", made->name());
  }
  parse(*this);
}

ParameterGroups make_groups(const NamedTensors& parameters, const GroupRules& rules) {
  rules.validate();
  const AllRules all = parse(rules);
  all.lr_scale.check_used(parameters);
  all.decay.check_used(parameters);
  all.optimizer.check_used(parameters);
  std::vector<std::shared_ptr<const Optimizer>> made(names_of(OptimizerId{}).size());
  const auto optimizer = [&](OptimizerId id) {
    auto& one = made[static_cast<std::size_t>(id)];
    if (one == nullptr) one = rules.settings.make(id);
    return one;
  };
  Grouping grouping(optimizer(rules.optimizer));
  for (const auto& [name, t] : parameters) {
    auto own = optimizer(all.optimizer.of(name, t, rules.optimizer));
    if (!own->suits(name, t.shape())) own = optimizer(rules.optimizer);
    if (!own->suits(name, t.shape())) own = optimizer(OptimizerId{});
    const double decay = rules.decay_all || is_matrix(name, t) ? rules.weight_decay : 0;
    grouping.add(
        {own, all.lr_scale.of(name, t, 1), all.decay.of(name, t, decay), rules.cautious_decay});
  }
  return grouping.take();
}

ParameterGroups make_groups(const NamedTensors& parameters,
                            std::shared_ptr<const Optimizer> optimizer, double weight_decay,
                            bool decay_all) {
  check_numbers("make_groups", {{"weight_decay", weight_decay, at_least(0)}});
  Grouping grouping(optimizer);
  for (const auto& [name, t] : parameters) {
    grouping.add({optimizer, 1, decay_all || is_matrix(name, t) ? weight_decay : 0});
  }
  return grouping.take();
}

double bytes_kept(const NamedTensors& parameters, const ParameterGroups& groups) {
  double bytes = 0;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Tensor& t = parameters[p].second;
    for (const StateSpec& kept : groups.of(p).optimizer->keeps(t.shape())) {
      bytes += static_cast<double>(kept.shape.numel()) * static_cast<double>(size_of(t.dtype()));
    }
  }
  return bytes;
}

std::int64_t longest_period(const ParameterGroups& groups) {
  std::int64_t longest = 1;
  for (const ParameterGroup& group : groups.groups)
    longest = std::max(longest, group.optimizer->period());
  return longest;
}

std::vector<std::int64_t> units_of(const NamedTensors& parameters, const ParameterGroups& groups) {
  std::vector<std::int64_t> units;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Shape& shape = parameters[p].second.shape();
    units.push_back(unit_of(groups.of(p).optimizer->cut(shape), shape));
  }
  return units;
}

std::vector<std::vector<std::size_t>> blocks_of(const NamedTensors& parameters) {
  std::vector<std::vector<std::size_t>> blocks;
  std::vector<std::size_t> others;
  std::map<std::string, std::size_t> known;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string name = block_of(parameters[p].first);
    if (name.empty()) {
      others.push_back(p);
      continue;
    }
    const auto [at, is_new] = known.emplace(name, blocks.size());
    if (is_new) blocks.emplace_back();
    blocks[at->second].push_back(p);
  }
  blocks.push_back(std::move(others));
  return blocks;
}

}  // namespace tapegrad::optim
