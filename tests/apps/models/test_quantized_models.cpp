// Models whose matrices are packed: what rounding costs, and that texts stay to the bit what they
// are alone.

#include <cmath>

#include "tapegrad/base/parallel.h"
#include "tapegrad/nn/generation/generate.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

const char* const kText = "the cat sat on mat 7 and the dog ate.\nthe cat sat on mat 1 and the dog";

const TinyRun& tiny() {
  static const TinyRun run(20);
  return run;
}

run::TextModel with_weights(std::string_view weights) {
  return run::load_quantized(run::open_model(tiny().run), weights);
}

std::vector<nn::Tokens> texts_of(const run::TextModel& model,
                                 const std::vector<nn::Tokens>& prompts,
                                 const nn::GenerateOptions& options) {
  return nn::generate(model.gpt, prompts, options, 5);
}

}  // namespace

TEST_CASE("a quantised model has the parameters of the others", "[quantized_models]") {
  const run::TextModel plain = run::load(tiny().run);
  for (const std::string& weights : run::quantized_weights()) {
    INFO(weights);
    const run::TextModel model = with_weights(weights);
    CHECK(model.params.total_count() == plain.params.total_count());
    CHECK(model.params.parameters().size() + model.params.quantized_matrices().size() ==
          plain.params.parameters().size());
  }
  CHECK_THROWS_WITH(with_weights("q9"), ContainsSubstring("as 'q9', only as stored, f32, "));
}

TEST_CASE("keys and values are as short as weights", "[quantized_models]") {
  for (const auto& [weights, cache] :
       {std::pair("f32", CacheType::f32), std::pair("bf16", CacheType::f16),
        std::pair("f16", CacheType::f16)}) {
    INFO(weights);
    CHECK(nn::usual_cache(with_weights(weights).params) == cache);
  }
  CHECK(nn::usual_cache(run::load(tiny().run).params) == CacheType::f32);

  const auto sampled = [](const Args& more) {
    return run_program("tapegrad", Args{"sample", tiny().run, "--prompt", "the cat",
                                        "--max-new-tokens", "12", "--weights", "bf16"} +
                                       more);
  };
  const Result usual = sampled({}), f16 = sampled({"--cache", "f16"}),
               f32 = sampled({"--cache", "f32"});
  check_ended_well(usual);
  CHECK(usual.out == f16.out);
  CHECK_THAT(usual.err, ContainsSubstring("; keys and values of f16\n"));
  CHECK(f32.out == sampled({"--no-kv-cache"}).out);
  CHECK_THAT(f32.err, !ContainsSubstring("keys and values"));
}

TEST_CASE("what is lost by rounding weights", "[quantized_models]") {
  const run::TextModel f32 = with_weights("f32");
  const data::TokenSource tokens = f32.tokenizer.encode(kText);
  const double plain = run::loss_of_tokens(run::load(tiny().run).gpt, f32.tokenizer, tokens,
                                           {.batch_size = 2, .block_size = 16})
                           ->perplexity;
  const std::map<std::string, double> most = {
      {"stored", 1e-5}, {"f32", 1e-5}, {"f16", 5e-4}, {"bf16", 2e-3}, {"q8_0", 3e-3}};
  for (const auto& [weights, limit] : most) {
    const run::TextModel model = with_weights(weights);
    const auto loss =
        run::loss_of_tokens(model.gpt, model.tokenizer, tokens,
                            {.batch_size = 2, .block_size = 16, .compared = {&f32.gpt}});
    REQUIRE(loss);
    const run::Comparison& beside = loss->comparisons.at(0);
    INFO(weights << ": perplexity " << loss->perplexity << ", in f32 " << beside.perplexity
                 << ", divergence " << beside.divergence);
    CHECK(std::abs(beside.perplexity / plain - 1) < 1e-5);
    CHECK(std::abs(loss->perplexity / plain - 1) < limit);
    CHECK(beside.divergence > -1e-6);
    CHECK(beside.divergence < limit);
    CHECK(beside.same_choice > 0.95);
  }
}

TEST_CASE("texts of quantised models are those that they are alone", "[quantized_models]") {
  const int threads_before = num_threads();
  for (const char* weights : {"f32", "bf16", "q8_0", "q4_0"}) {
    const run::TextModel model = with_weights(weights);
    std::vector<nn::Tokens> prompts;
    for (const char* prompt : {"the cat", "t", "the dog ate. the cat sat"}) {
      prompts.push_back(model.tokens_of(prompt));
    }
    set_num_threads(1);
    const nn::GenerateOptions options{.max_new_tokens = 12};
    std::vector<nn::Tokens> alone;
    for (const nn::Tokens& prompt : prompts) {
      alone.push_back(nn::stream(model.gpt, prompt, options, 5 + alone.size()).tokens());
    }
    for (const int threads : {1, 2, 3, 5}) {
      INFO(weights << ", " << threads << " threads");
      set_num_threads(threads);
      CHECK(texts_of(model, prompts, options) == alone);
      CHECK(texts_of(model, prompts, {.max_new_tokens = 12, .lookup = 4}) == alone);
    }
  }
  set_num_threads(threads_before);
}
