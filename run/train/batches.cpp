#include "tapegrad/run/train/batches.h"

namespace tapegrad::run {
namespace {

using AnyLoader = std::variant<data::Loader, data::EpochLoader, data::PackedBatches>;

AnyLoader make_loader(const data::TokenSource& tokens, const BatchPlan& plan, Rng rng) {
  if (plan.kind == BatchKind::epochs)
    return data::EpochLoader(tokens, epoch_options(plan, true), std::move(rng));
  return data::Loader(tokens, plan.batch_size, plan.block_size, std::move(rng));
}

}  // namespace

BatchPlan batch_plan(const TextOptions& text, std::int64_t batch_size) {
  return {text.batches, batch_size, text.block_size, text.stride.value_or(text.block_size),
          text.loss};
}

data::EpochLoader::Options epoch_options(const BatchPlan& plan, bool training) {
  return {.batch_size = plan.batch_size,
          .block_size = plan.block_size,
          .stride = plan.stride,
          .shuffle = training,
          .drop_last = training};
}

Batches::Batches(const data::TokenSource& tokens, const BatchPlan& plan, Rng rng)
    : loader_(make_loader(tokens, plan, std::move(rng))) {}

Batches::Batches(const TextData& data, const BatchPlan& plan, Rng rng)
    : loader_(data.chat ? packed_batches(data.chat->train, plan, true, std::move(rng))
                        : make_loader(data.train, plan, std::move(rng))) {}

data::PackedBatches packed_batches(std::shared_ptr<const data::ChatSet> set, const BatchPlan& plan,
                                   bool training, Rng rng) {
  return {std::move(set),
          {.batch_size = plan.batch_size,
           .block_size = plan.block_size,
           .loss = plan.loss,
           .shuffle = training},
          std::move(rng)};
}

std::vector<int64_t> Batches::counted(int64_t batches) const {
  const auto* packed = std::get_if<data::PackedBatches>(&loader_);
  return packed == nullptr ? std::vector<int64_t>() : packed->counted(batches);
}

data::Batch Batches::next() {
  return std::visit([](auto& loader) { return loader.next(); }, loader_);
}

void Batches::skip() {
  std::visit([](auto& loader) { loader.skip(); }, loader_);
}

Rng& Batches::rng() {
  return std::visit([](auto& loader) -> Rng& { return loader.rng(); }, loader_);
}

int64_t Batches::per_epoch() const {
  return std::visit(
      [](const auto& loader) -> int64_t {
        if constexpr (requires { loader.batches_per_epoch(); }) return loader.batches_per_epoch();
        return 0;
      },
      loader_);
}

bool Batches::ended_epoch(int64_t batches) const {
  return std::visit(
      [&](const auto& loader) {
        if constexpr (requires { loader.ended_epoch(batches); }) return loader.ended_epoch(batches);
        return false;
      },
      loader_);
}

std::string Batches::state() const {
  return std::visit([](const auto& loader) { return loader.state(); }, loader_);
}

void Batches::set_state(std::string_view state) {
  std::visit([&](auto& loader) { loader.set_state(state); }, loader_);
}

}  // namespace tapegrad::run
