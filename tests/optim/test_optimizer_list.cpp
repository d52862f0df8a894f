#include <set>

#include "tapegrad/optim/optimizer_list.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::optim;

namespace {

// Notes names, addresses and help texts.
struct Noted {
  std::vector<std::string> names, help;
  std::vector<const void*> at;
  template <class T>
  void operator()(std::string_view name, T& value, const std::string& text, const Rule& rule) {
    names.emplace_back(name);
    help.push_back(text);
    at.push_back(&value);
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
    Noted own;
    std::as_const(settings).describe(own, {id});
    for (const std::string& help : own.help) CHECK(help.starts_with(std::string(name) + ": "));
    CHECK(own.names.size() == settings.options_of(id).size());
    n += own.names.size();
  }
  CHECK(n == all.names.size());
}

TEST_CASE("options keep their addresses when others are assigned", "[optimizer-list]") {
  OptimizerSettings settings;
  Noted before, after, copied;
  settings.describe(before);
  OptimizerSettings other;
  other.set("beta2", 0.5).set("nesterov", 1);
  settings = other;
  settings = OptimizerSettings(other);
  settings.describe(after);
  CHECK(before.at == after.at);
  const auto beta2 = static_cast<std::size_t>(
      std::find(after.names.begin(), after.names.end(), "beta2") - after.names.begin());
  CHECK(*static_cast<const double*>(after.at[beta2]) == 0.5);
  OptimizerSettings copy = settings;
  copy.describe(copied);
  CHECK(copied.at != after.at);
  CHECK_THROWS_WITH(settings.set("beta3", 1),
                    ContainsSubstring("no optimiser has an option 'beta3'"));
}
