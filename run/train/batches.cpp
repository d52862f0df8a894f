#include "tapegrad/run/train/batches.h"

namespace tapegrad::run {
namespace {

using AnyLoader = std::variant<data::Loader, data::EpochLoader>;

AnyLoader make_loader(const data::Tokens& tokens, const BatchPlan& plan, Rng rng) {
  if (plan.kind == BatchKind::epochs)
    return data::EpochLoader(tokens, pass_options(plan, true), std::move(rng));
  return data::Loader(tokens, plan.batch_size, plan.block_size, std::move(rng));
}

}  // namespace

BatchPlan batch_plan(const TextOptions& text, std::int64_t batch_size) {
  return {text.batches, batch_size, text.block_size, text.stride.value_or(text.block_size)};
}

data::EpochLoader::Options pass_options(const BatchPlan& plan, bool training) {
  return {.batch_size = plan.batch_size,
          .block_size = plan.block_size,
          .stride = plan.stride,
          .shuffle = training,
          .drop_last = training};
}

Batches::Batches(const data::Tokens& tokens, const BatchPlan& plan, Rng rng)
    : loader_(make_loader(tokens, plan, std::move(rng))) {}

data::Batch Batches::next() {
  return std::visit([](auto& loader) { return loader.next(); }, loader_);
}

void Batches::skip() {
  std::visit([](auto& loader) { loader.skip(); }, loader_);
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

}  // namespace tapegrad::run
