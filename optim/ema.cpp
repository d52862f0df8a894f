#include "tapegrad/optim/ema.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/number_rules.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::optim {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr std::string_view kUpdates = "ema.updates";
// Far more than any run makes; the count of a file must leave room to go on counting.
constexpr std::int64_t kMostUpdates = std::int64_t{1} << 40;

// Calls visit(changed, read) for each element.
template <class Visit>
void change_each(const NamedTensors& changed, const NamedTensors& read, const Visit& visit) {
  for (std::size_t k = 0; k < changed.size(); ++k) {
    Tensor to = changed[k].second;
    const Tensor& from = read[k].second;
    dispatch(to.dtype(), [&](auto zero) {
      auto* t = to.mutable_data<decltype(zero)>();
      const auto* f = from.data<decltype(zero)>();
      parallel_for(to.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) visit(t[i], f[i]);
      });
    });
  }
}

}  // namespace

EMA::EMA(NamedTensors parameters, const EMAOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  check_numbers("EMAOptions", {{"decay", options.decay, from_to(0, 1)},
                               {"start", static_cast<double>(options.start), at_least(1)}});
  for (const auto& [name, t] : parameters_) averages_.emplace_back(name, t.detach().clone());
}

void EMA::update() {
  if (++updates_ <= options_.start) {
    change_each(averages_, parameters_, [](auto& a, auto w) { a = w; });
    return;
  }
  // torch.lerp has two forms, each of which is exact at its own end.
  const auto averaged = static_cast<double>(updates_ - options_.start + 1);
  const double share = options_.mean ? 1 / averaged : 1 - options_.decay;
  change_each(averages_, parameters_, [share](auto& a, auto w) {
    const auto s = static_cast<decltype(w)>(share);
    a = s < 0.5F ? a + s * (w - a) : w - (w - a) * (1 - s);
  });
}

void EMA::swap() {
  for (std::size_t k = 0; k < parameters_.size(); ++k) {
    Tensor weight = parameters_[k].second, average = averages_[k].second;
    dispatch(weight.dtype(), [&](auto zero) {
      auto* w = weight.mutable_data<decltype(zero)>();
      auto* a = average.mutable_data<decltype(zero)>();
      parallel_for(weight.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
        std::swap_ranges(w + begin, w + end, a + begin);
      });
    });
  }
}

void EMA::copy_to_parameters() {
  change_each(parameters_, averages_, [](auto& w, auto a) { w = a; });
}

NamedTensors EMA::state() const {
  NamedTensors state;
  for (const auto& [name, average] : averages_) state.emplace_back("ema." + name, average);
  return state;
}

Metadata EMA::metadata() const { return {{std::string(kUpdates), std::to_string(updates_)}}; }

void EMA::load_state(const TensorSource& file) {
  const auto text = file.metadata().find(std::string(kUpdates));
  check(text != file.metadata().end(), "{}: the metadata has no {}: no averages were saved here",
        file.name(), kUpdates);
  const std::optional<std::int64_t> updates = number_of<std::int64_t>(text->second);
  check(updates && *updates >= 0 && *updates <= kMostUpdates,
        "{}: {} is '{}', not a number from 0 to {}", file.name(), kUpdates, text->second,
        kMostUpdates);
  NamedTensors loaded;
  for (const auto& [name, average] : averages_) {
    const std::string key = "ema." + name;
    const TensorSource::Entry& stored = file.at(key);
    check(stored.shape == average.shape() && stored.dtype == average.dtype(),
          "{}: '{}' is {} {}, but the model needs {} {}", file.name(), key, stored.shape,
          tapegrad::name_of(stored.dtype), average.shape(), tapegrad::name_of(average.dtype()));
    loaded.emplace_back(name, file.read(key));
  }
  averages_ = std::move(loaded);
  updates_ = *updates;
}

}  // namespace tapegrad::optim
