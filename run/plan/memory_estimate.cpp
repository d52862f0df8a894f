#include "tapegrad/run/plan/memory_estimate.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tapegrad/base/memory/available_memory.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/optim/internal/sent_values.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/optim/optimizer_state.h"

namespace tapegrad::run {
namespace {

double physical_memory() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

nn::BytesKept kept_by(const optim::GroupRules& rules) {
  return [rules](const NamedTensors& parameters) {
    const optim::ParameterGroups groups = optim::make_groups(parameters, rules);
    const std::vector<std::int64_t> units = optim::units_of(parameters, groups);
    nn::KeptBytes kept{.all = optim::bytes_kept(parameters, groups)};
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (units[p] < parameters[p].second.numel()) continue;
      const optim::ParameterGroups own{{groups.of(p)}, {0}, groups.main};
      kept.most_uncut = std::max(kept.most_uncut, optim::bytes_kept({parameters[p]}, own));
    }
    return kept;
  };
}

nn::Update update_by(const optim::GroupRules& rules) {
  return [rules](const NamedTensors& parameters) {
    optim::OptimizerState(parameters, optim::make_groups(parameters, rules))
        .step_part(0, 1, 1, [](std::size_t) {});
  };
}

// A step needs at least this: weights, gradients, what the optimiser keeps, and the activations
// that go into the first layer. For a model or a batch that is far beyond the machine, the bound
// says enough, while even a dry step of so many layers or tokens would take long.
template <class Model, class Config>
std::optional<MemoryEstimate> far_beyond_machine(const Config& config, double tokens,
                                                 const optim::GroupRules& rules) {
  const nn::Params shapes = nn::shapes_of<Model>(config);
  const auto weights = sizeof(float) * static_cast<double>(shapes.count());
  // Without patterns: they may name adapters.
  const nn::KeptBytes kept =
      kept_by({.optimizer = rules.optimizer, .settings = rules.settings})(shapes.parameters());
  const double activations = sizeof(float) * tokens * static_cast<double>(config.n_embd);
  MemoryEstimate bound{.weights = weights,
                       .gradients = weights,
                       .optimizer = kept.all,
                       .most_uncut = kept.most_uncut,
                       .activations = activations,
                       .total = weights + kept.all + std::max(weights, activations),
                       .passes = activations,
                       .passes_by_blocks = activations};
  nn::measure_blocks(bound, shapes.parameters());
  if (bound.total < 4 * physical_memory()) return std::nullopt;
  return bound;
}

// What is trained has a gradient as large as itself, and as large an average.
MemoryEstimate with_averages(MemoryEstimate estimate, const StepOptions& step) {
  if (!step.averages) return estimate;
  estimate.averages = estimate.gradients;
  estimate.total += estimate.averages;
  return estimate;
}

double bytes_of(const nn::Params& params) {
  double bytes = 0;
  for (const auto& [name, t] : params.tensors()) bytes += static_cast<double>(t.bytes());
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    bytes += static_cast<double>(matrix->bytes());
  }
  return bytes;
}

// Ids whose values do not matter.
Tensor unread_ids(int64_t rows, int64_t columns) {
  const DryRun dry;
  return Tensor::empty({rows, columns}, DType::i32);
}

}  // namespace

MemoryEstimate estimate_memory(const nn::DecoderConfig& config, int64_t batch_size,
                               const MemoryOptions& options) {
  const StepOptions& step = options.step;
  const std::int64_t T = options.block_size.value_or(config.block_size);
  const double tokens = static_cast<double>(batch_size) * static_cast<double>(T);
  const bool all_trained = !step.tuning.lora_rank;  // as the bound takes for granted
  const auto bound = all_trained && !options.other_machine
                         ? far_beyond_machine<nn::Decoder>(config, tokens, step.optimizer)
                         : std::nullopt;
  if (bound) return with_averages(*bound, step);
  Rng rng(0, step.dropout);
  const Tensor ids = unread_ids(batch_size, T);
  const auto params = [&] {
    return step.params ? step.params() : nn::Params::shapes_only(DType::f32, step.precision);
  };
  struct Models {
    nn::Decoder trained;
    std::optional<nn::Decoder> second_model;
  };
  double beside_bytes = 0;
  const auto make = [&](const nn::Params& p) {
    nn::DecoderBuildOptions how = step.tuning.build_options(step.recompute);
    how.new_adapters = &rng;
    Models models{nn::make_decoder(p, config, how), std::nullopt};
    if (options.second_model) {
      const nn::Params others = options.second_model->params();
      models.second_model.emplace(others, options.second_model->config);
      beside_bytes = bytes_of(others);
    }
    return models;
  };
  const auto loss = [&](const Models& models) {
    const nn::Decoder* const second_model = models.second_model ? &*models.second_model : nullptr;
    return step.loss ? step.loss(models.trained, second_model, ids, ids, &rng)
                     : models.trained.loss(ids, ids, &rng);
  };
  MemoryEstimate estimate =
      nn::measure_step(params, make, loss, kept_by(step.optimizer), update_by(step.optimizer));
  estimate.weights += beside_bytes;
  return with_averages(estimate, step);
}

MemoryEstimate estimate_memory(const nn::TransformerConfig& config, const PairSizes& batch,
                               const MemoryOptions& options) {
  const double tokens =
      static_cast<double>(batch.rows) * static_cast<double>(batch.source + batch.target);
  if (const auto bound =
          far_beyond_machine<nn::Transformer>(config, tokens, options.step.optimizer))
    return with_averages(*bound, options.step);
  Rng rng(0, options.step.dropout);
  const Tensor source = unread_ids(batch.rows, batch.source);
  const Tensor target = unread_ids(batch.rows, batch.target);
  const auto make = [&](const nn::Params& p) { return nn::Transformer(p, config); };
  const auto loss = [&](const nn::Transformer& model) {
    return model.loss(source, target, target, {}, &rng);
  };
  return with_averages(
      nn::measure_step(make, loss, options.step.precision, kept_by(options.step.optimizer),
                       update_by(options.step.optimizer)),
      options.step);
}

std::string describe(const MemoryEstimate& e) {
  const std::string averages =
      e.averages > 0 ? fmt::format(", their averages {:.0f}", e.averages / 1e6) : "";
  return fmt::format(
      "about {:.0f} MB at once: weights {:.0f}{}, optimiser {:.0f}, activations {:.0f}; gradients "
      "take {:.0f} while activations are freed",
      e.total / 1e6, e.weights / 1e6, averages, e.optimizer / 1e6, e.activations / 1e6,
      e.gradients / 1e6);
}

namespace {

// Of several ranks that meet in each step.
MemoryEstimate memory_of_share(MemoryEstimate e, int ranks, optim::Shard shard) {
  // The buckets that are sent and received at once; where gradients go as soon as they are
  // complete, one more is filled.
  constexpr double bucket = sizeof(float) * static_cast<double>(optim::kBucketSize);
  constexpr double under_way = 2 * static_cast<double>(optim::kBucketsUnderWay) * bucket;
  double passes = e.passes + std::min(under_way + bucket, 2 * e.gradients);
  e.gradients /= ranks;
  e.optimizer = std::max(e.optimizer / ranks, e.most_uncut);
  if (shard == optim::Shard::parameters) {
    // A block, the one before it, and the one that is on its way; and the gradients of as many.
    const double trained = e.gradients * ranks, whole = e.weights, all = whole + trained / ranks;
    const double some = std::min(3 * e.largest_block, e.blocks + e.largest_block);
    e.weights = all - e.blocks + some;
    e.elsewhere = whole - e.weights;
    passes = e.passes_by_blocks + std::min(3 * e.largest_block, e.blocks) +
             std::min(under_way, 2 * trained);
    passes = std::max(passes, all - e.weights);  // between steps, all weights are there
  }
  e.total = e.weights + e.averages + e.optimizer + e.gradients + std::max(passes, e.updating);
  return e;
}

// Of a group that meets others through files, with the weights of the last meeting, as large as the
// gradients of all parameters. At a meeting, nothing of a step is there, but a whole file.
MemoryEstimate with_file_meetings(MemoryEstimate e, double trained, optim::CommDType sent) {
  constexpr std::int64_t some = 1 << 20;
  const double file = trained * static_cast<double>(optim::bytes_sent(sent, some)) /
                      static_cast<double>(optim::bytes_sent(optim::CommDType::f32, some));
  const double step = e.total - e.weights - e.averages - e.optimizer - e.gradients;
  e.optimizer += trained;
  e.total += trained + std::max(0.0, file - step);
  return e;
}

}  // namespace

MemoryEstimate memory_of_rank(const MemoryEstimate& estimate, int ranks,
                              const optim::Sharing& sharing) {
  const MemoryEstimate shared =
      ranks == 1 ? estimate : memory_of_share(estimate, ranks, sharing.shard);
  if (!sharing.local) return shared;
  if (sharing.local->place) return with_file_meetings(shared, estimate.gradients, sharing.sent);
  const int groups = static_cast<int>(sharing.local->groups.value_or(ranks));
  const int members = std::max(1, ranks / groups);
  MemoryEstimate e = members == 1 ? estimate : memory_of_share(estimate, members, sharing.shard);
  constexpr double bucket = sizeof(float) * static_cast<double>(optim::kBucketSize);
  // What is trained has a gradient as large as itself. At a meeting, a bucket is sent, received,
  // and added up.
  const double kept = estimate.gradients * (1 + 1.0 / ranks);
  e.optimizer += kept;
  e.total += kept + 3 * std::min(bucket, estimate.gradients);
  return e;
}

namespace {

double bytes_of_copy(const MemoryEstimate& estimate, bool measured) {
  return measured ? estimate.weights + estimate.elsewhere : 0;
}
double bytes_needed(const MemoryEstimate& estimate, bool measured, int here) {
  return here * (estimate.total + bytes_of_copy(estimate, measured));
}

}  // namespace

void check_memory(const MemoryEstimate& estimate, bool measured, int here) {
  const std::optional<AvailableMemory> available = available_memory();
  const double copy = bytes_of_copy(estimate, measured);
  const double needed = bytes_needed(estimate, measured, here);
  check(
      !available || needed <= available->bytes,
      "training needs about {}{} (model and optimiser {}, activations {}{}), but {}. Use a smaller "
      "model, or a smaller --batch-size with more --gradient-accumulation-steps",
      size_text(needed), here > 1 ? fmt::format(" for {} processes here, each", here) : "",
      size_text(estimate.weights + estimate.averages + estimate.optimizer),
      size_text(estimate.activations),
      measured ? fmt::format(", a copy for --max-minutes {}", size_text(copy)) : "",
      available ? available->text() : "");
}

namespace {

// The memory of this rank, and the number of processes on this host.
std::pair<MemoryEstimate, int> share_of(const MemoryEstimate& estimate, const Processes* processes,
                                        const optim::Sharing& sharing) {
  if (processes == nullptr) return {memory_of_rank(estimate, 1, sharing), 1};
  int here = 0;
  for (int rank = 0; rank < processes->size(); ++rank) {
    here += processes->host(rank) == processes->host(processes->rank());
  }
  return {memory_of_rank(estimate, processes->size(), sharing), here};
}

}  // namespace

bool memory_fits(const MemoryEstimate& estimate, bool measured, const Processes* processes,
                 const optim::Sharing& sharing) {
  const auto [own, here] = share_of(estimate, processes, sharing);
  const std::optional<AvailableMemory> available = available_memory();
  return !available || bytes_needed(own, measured, here) <= available->bytes;
}

MemoryEstimate checked_memory(const MemoryEstimate& estimate, bool measured,
                              const Processes* processes, const optim::Sharing& sharing) {
  const auto [own, here] = share_of(estimate, processes, sharing);
  check_memory(own, measured, here);
  return own;
}

}  // namespace tapegrad::run
