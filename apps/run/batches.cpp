#include "tapegrad/run/batches.h"

namespace tapegrad::apps {
namespace {

using AnyLoader = std::variant<data::Loader, data::EpochLoader>;

AnyLoader make_loader(const std::vector<data::Token>& tokens, const TrainOptions& o, Rng rng) {
  if (o.in_passes()) return data::EpochLoader(tokens, pass_options(o, true), std::move(rng));
  return data::Loader(tokens, o.batch_size, o.block_size, std::move(rng));
}

}  // namespace

data::EpochLoader::Options pass_options(const TrainOptions& o, bool training) {
  return {.batch_size = o.batch_size,
          .block_size = o.block_size,
          .stride = o.stride.value_or(o.block_size),
          .shuffle = training,
          .drop_last = training};
}

Batches::Batches(const std::vector<data::Token>& tokens, const TrainOptions& options, Rng rng)
    : loader_(make_loader(tokens, options, std::move(rng))) {}

data::Batch Batches::next() {
  return std::visit([](auto& loader) { return loader.next(); }, loader_);
}

Rng& Batches::rng() {
  return std::visit([](auto& loader) -> Rng& { return loader.rng(); }, loader_);
}

int64_t Batches::per_pass() const {
  const auto* passes = std::get_if<data::EpochLoader>(&loader_);
  return passes == nullptr ? 0 : passes->batches_per_epoch();
}

bool Batches::ended_pass(int64_t batches) const {
  const auto* passes = std::get_if<data::EpochLoader>(&loader_);
  return passes != nullptr && passes->ended_pass(batches);
}

std::string Batches::state() const {
  return std::visit([](const auto& loader) { return loader.state(); }, loader_);
}

void Batches::set_state(std::string_view state) {
  std::visit([&](auto& loader) { loader.set_state(state); }, loader_);
}

}  // namespace tapegrad::apps
