#include <algorithm>
#include <set>

#include "tapegrad/optim/optimizer_list.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::optim;

namespace {

// Notes names and help texts.
struct Noted : OptionTable {
  std::vector<std::string> names, help;
  std::vector<OptionValue> values;
  void visit(std::string_view name, const Member& member, std::string_view text,
             const Rule& rule) override {
    names.emplace_back(name);
    help.emplace_back(text);
    values.push_back(member.value());
    CHECK(rule.newer);
  }
};

}  // namespace

TEST_CASE("options of optimisers have names of their own, and say whose they are",
          "[optimizer-list]") {
  OptimizerSettings settings;
  Noted all;
  settings.describe(all);
  CHECK(std::set(all.names.begin(), all.names.end()).size() == all.names.size());
  std::size_t n = 0;
  for (const std::string_view name : names_of(OptimizerId{})) {
    const OptimizerId id = optimizer_named(name);
    CHECK(settings.make(id)->name() == name);
    for (const std::string_view option : settings.options_of(id)) {
      CHECK(all.names[n] == option);
      CHECK(all.help[n++].starts_with(std::string(name) + ": "));
    }
  }
  CHECK(n == all.names.size());
}

// A command line holds the addresses of members.
struct Held : OptionTable {
  std::vector<Member> members;
  void visit(std::string_view, const Member& member, std::string_view, const Rule&) override {
    members.push_back(member);
  }
};

TEST_CASE("options keep their addresses when others are assigned", "[optimizer-list]") {
  OptimizerSettings settings;
  Held held;
  Noted after;
  settings.describe(held);
  OptimizerSettings other;
  other.set("beta2", 0.5).set("nesterov", 1);
  settings = other;
  settings = OptimizerSettings(other);
  other.set("beta2", 0.75);
  settings.describe(after);
  const auto beta2 = static_cast<std::size_t>(
      std::find(after.names.begin(), after.names.end(), "beta2") - after.names.begin());
  CHECK(std::get<double>(after.values[beta2]) == 0.5);
  CHECK(std::get<double>(held.members[beta2].value()) == 0.5);
  CHECK_THROWS_WITH(settings.set("beta3", 1),
                    ContainsSubstring("no optimiser has an option 'beta3'"));
}
