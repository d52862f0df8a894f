#include "tapegrad/apps/bench/generate_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tapegrad/apps/bench/generate_ops.h"
#include "tapegrad/autograd/quantized/read_rate.h"
#include "tapegrad/base/internal/median.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::bench {
namespace {

// Keys and values that the median step reads.
double cache_bytes_per_step(const nn::Decoder& model, const GenerateBenchOptions& o) {
  const auto position = static_cast<double>(nn::cache_bytes_per_position(model.config, *o.cache));
  return static_cast<double>(o.batch) * (static_cast<double>(o.prompt) + o.tokens / 2.0) * position;
}

// "49 q8_0, 1 f32", or "q8_0" if all are
std::string types_of(const nn::Params& params) {
  std::map<std::string_view, int> counts;
  for (const auto& [name, matrix] : params.quantized_matrices()) ++counts[matrix->type().name];
  std::vector<std::string> parts;
  for (const auto& [type, count] : counts) {
    parts.push_back(counts.size() == 1 ? std::string(type) : fmt::format("{} {}", count, type));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

struct Times {
  double prompt = 0;               // until all texts have a first token
  std::vector<double> steps = {};  // of each further token
};

// `ops`, if there is one, notes where the time of the further tokens goes.
Times times_of(const nn::Decoder& model, const GenerateBenchOptions& o,
               GenerateOps* ops = nullptr) {
  const std::int64_t all = o.batch * o.prompt;
  nn::Generation generation(
      model,
      {.max_sequences = o.batch, .cache = *o.cache, .prompt_chunk = o.prompt_chunk.value_or(all)});
  Rng rng(1);
  std::vector<nn::Generation::Id> ids;
  for (std::int64_t i = 0; i < o.batch; ++i) {
    nn::Tokens prompt;
    for (std::int64_t t = 0; t < o.prompt; ++t) {
      prompt.push_back(static_cast<std::int32_t>(rng.next32() % model.config.vocab_size));
    }
    ids.push_back(generation.add(std::move(prompt),
                                 {.max_new_tokens = o.tokens + 1, .greedy = true}, Rng(1)));
  }
  Times times;
  times.prompt = seconds_of([&] {
    while (generation.step() && generation.cost().prompt_tokens < all) {
    }
  });
  for (std::int64_t t = 0; t < o.tokens; ++t) {
    times.steps.push_back(ops != nullptr ? ops->step(generation)
                                         : seconds_of([&] { generation.step(); }));
  }
  for (const auto id : ids) {
    generation.take(id);
    generation.take(id);  // behind all tokens: an Error if steps made none
  }
  return times;
}

}  // namespace

void bench_generate(const nn::Decoder& model, const nn::Params& params, const std::string& name,
                    const GenerateBenchOptions& options) {
  GenerateBenchOptions o = options;
  const CacheType type = options.cache.value_or(nn::usual_cache(params));
  o.cache = type;
  check(o.tokens <= model.config.block_size - o.prompt,
        "a prompt of {} tokens and {} more do not fit into the {} that the model can see", o.prompt,
        o.tokens, model.config.block_size);
  const auto memory = nn::read_by_pass(model, params);
  const auto weights = static_cast<double>(nn::bytes_of(memory));
  const double cache = cache_bytes_per_step(model, o), bytes = weights + cache;
  times_of(
      model,
      {.batch = o.batch, .prompt = 2, .tokens = 2, .cache = o.cache});  // so that pages are there
  const double before = read_rate(memory);
  std::optional<GenerateOps> ops;
  if (o.ops) ops.emplace(model);
  const Times times = times_of(model, o, ops ? &*ops : nullptr);
  const double limit = std::max(before, read_rate(memory));
  const double step = median(times.steps);
  const double prompt_rate = static_cast<double>(o.batch * o.prompt) / times.prompt;
  const double text_rate = static_cast<double>(o.batch) / step, read = bytes / step;
  if (o.json) {
    Json json = {{"model", name},
                 {"weights", types_of(params)},
                 {"weight_bytes", weights},
                 {"cache", names_of(type)[static_cast<std::size_t>(type)]},
                 {"cache_bytes", cache},
                 {"threads", num_threads()},
                 {"kernels", quantized_kernels()},
                 {"batch", o.batch},
                 {"prompt_tokens", o.prompt},
                 {"prompt_tokens_per_second", prompt_rate},
                 {"tokens", o.tokens},
                 {"tokens_per_second", text_rate},
                 {"bytes_per_second", read},
                 {"read_bytes_per_second", limit},
                 {"share", read / limit}};
    if (ops) json["ops"] = ops->json(o.batch);
    fmt::print("{}\n", json_text(json, 2));
    return;
  }
  fmt::print(
      "{}: weights {}, {:.1f} MB, and {:.1f} MB of keys and values of {} for each step; {} "
      "threads, "
      "{} kernels\n",
      name, types_of(params), weights / 1e6, cache / 1e6,
      names_of(type)[static_cast<std::size_t>(type)], num_threads(), quantized_kernels());
  fmt::print("prompt: {} × {} tokens in {:.3f} s: {} tok/s\n", o.batch, o.prompt, times.prompt,
             grouped(static_cast<std::int64_t>(prompt_rate)));
  fmt::print("text: {} × {} tokens, the median step {:.2f} ms: {:.1f} tok/s\n", o.batch, o.tokens,
             1e3 * step, text_rate);
  fmt::print(
      "they are read at {:.1f} GB/s, {:.0f} % of the {:.1f} GB/s that the weights can be read at\n",
      read / 1e9, 100 * read / limit, limit / 1e9);
  if (ops) ops->print(o.batch);
}

}  // namespace tapegrad::bench
