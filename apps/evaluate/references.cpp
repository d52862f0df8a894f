#include "tapegrad/apps/evaluate/references.h"

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/models/same_tokens.h"

namespace tapegrad::evaluation {
namespace {

constexpr const char* kAgainst = "against";

// Error, naming both, unless the other model has the same tokens and sees as many of them at once.
run::OpenedModel open_against(const ReferenceOptions& o, const run::OpenedModel& model,
                              std::int64_t block_size) {
  run::OpenedModel other = run::open_model(*o.against);
  const std::string difference =
      run::token_difference({other.tokenizer, other.config.vocab_size},
                            {model.tokenizer, model.config.vocab_size}, o.model);
  check(difference.empty(), "--against {}: {}: both must have the same tokens", *o.against,
        difference);
  check(block_size <= other.config.block_size,
        "--against {}: it sees {} tokens at once, fewer than the {} that {} is evaluated with: "
        "--block-size {} suits both",
        *o.against, grouped(other.config.block_size), grouped(block_size), o.model,
        other.config.block_size);
  return other;
}

}  // namespace

References references_of(const ReferenceOptions& o, const run::OpenedModel& model,
                         std::int64_t block_size) {
  References all;
  std::optional<run::OpenedModel> against;  // errors come before weights are read
  if (o.against) against = open_against(o, model, block_size);
  std::string and_cache;
  if (o.cache != CacheType::f32) {
    const std::string_view cache = name_of_enum(o.cache);
    all.push_back({"f32_cache",
                   fmt::format("beside keys and values in f32 (the cost of --cache {})", cache),
                   std::nullopt});
    and_cache = fmt::format(" and --cache {}", cache);
  }
  if (o.beside_f32) {
    const std::string cost = o.weights == run::kStored
                                 ? "computing with the weights as stored"
                                 : fmt::format("--weights {}, rounding included", o.weights);
    all.push_back({"f32", fmt::format("beside f32 (the cost of {}{})", cost, and_cache),
                   run::load_quantized(model, "f32")});
  }
  if (against) {
    all.push_back(
        {kAgainst,
         fmt::format("against {} (the cost of rounding{}, if this model was made from it)",
                     cli::printable(*o.against), and_cache),
         run::load_quantized(std::move(*against))});
  }
  return all;
}

std::string comparison_lines(const References& references, const run::TextLoss& here) {
  std::string lines;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const run::Comparison& other = here.comparisons[i];
    lines += fmt::format(
        "{}: perplexity {:.4f} there, {:.4f} here ({:+.3f} %); mean KL divergence {:.3g} nats; the "
        "same likeliest token for {:.2f} %\n",
        references[i].title, other.perplexity, here.perplexity,
        100 * (here.perplexity / other.perplexity - 1), other.divergence, 100 * other.same_choice);
  }
  return lines;
}

void add_comparisons(Json& json, const ReferenceOptions& o, const References& references,
                     const run::TextLoss& here) {
  for (std::size_t i = 0; i < references.size(); ++i) {
    const run::Comparison& other = here.comparisons[i];
    Json& compared = json[references[i].key] = {{"loss", other.loss},
                                                {"perplexity", other.perplexity},
                                                {"divergence", other.divergence},
                                                {"same_choice", other.same_choice}};
    if (references[i].key == kAgainst) compared["model"] = *o.against;
  }
}

}  // namespace tapegrad::evaluation
