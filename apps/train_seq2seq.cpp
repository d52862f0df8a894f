#include <algorithm>

#include "tapegrad/apps/seq2seq/seq2seq_data.h"
#include "tapegrad/autograd/base/parallel.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/train_loop.h"

namespace tapegrad::apps {
namespace {

constexpr size_t examples = 5;

// Of the largest batch there can be.
MemoryEstimate memory_of(const nn::TransformerConfig& c, const Seq2SeqOptions& o,
                         const PairData& data) {
  PairSizes batch{.rows = o.batch_size, .source = 0, .target = 0};
  for (const data::TokenPair& pair : data.train) {
    batch.source = std::max(batch.source, static_cast<int64_t>(pair.source.size()));
    batch.target = std::max(batch.target, static_cast<int64_t>(pair.target.size()) + 1);
  }
  return estimate_memory(c, batch, {.stored_masks = o.one_generator(), .precision = o.precision()});
}

Report::About describe(const nn::TransformerConfig& c, const Seq2SeqOptions& o, const Text& text,
                       const PairData& data) {
  return {.model = fmt::format("n_layer {} + {}, n_head {}, n_embd {}, n_hidden {}, block_size {}, "
                               "vocab_size {}: {} parameters",
                               c.n_layer, c.n_layer, c.n_head, c.n_embd, c.n_hidden, c.block_size,
                               c.vocab_size, grouped(nn::shapes_of<nn::Transformer>(c).count())),
          .text = fmt::format("{}: {} pairs to train, {} held out ({})", text.name,
                              grouped(static_cast<int64_t>(data.train.size())),
                              grouped(static_cast<int64_t>(data.held_out.size())), o.tokenizer),
          .step = grouped(o.batch_size * o.gradient_accumulation_steps) + " pairs",
          .memory = memory_of(c, o, data),
          .product = {o.batch_size * c.block_size, c.n_hidden, c.n_embd}};
}

void print_examples(const nn::Transformer& model, const PairData& data, Report& report) {
  std::vector<std::vector<data::Token>> sources;
  for (const data::TokenPair& pair : data.held_out) {
    if (sources.size() < examples) sources.push_back(pair.source);
  }
  const auto found = translate_all(model, data.tokenizer, sources, translate_options(data.special));
  report.line("\nheld-out pairs:");
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string expected = data.tokenizer.decode(data.held_out[i].target);
    report.line(fmt::format("  {}\n    {}{}", data.tokenizer.decode(sources[i]), found[i],
                            found[i] == expected ? "" : ", which should be " + expected));
  }
}

int finish(const nn::Transformer& model, const PairData& data, const Seq2SeqOptions& options,
           Report& report) {
  report.working("translating all held-out pairs");
  if (const auto accuracy = held_out_accuracy(model, data, options.batch_size)) {
    report.result(fmt::format("final: {} held-out pairs: token accuracy {:.2f} %, exact match "
                              "{:.2f} %",
                              grouped(static_cast<int64_t>(data.held_out.size())),
                              100 * accuracy->tokens, 100 * accuracy->exact),
                  {{"final_token_accuracy", accuracy->tokens},
                   {"final_exact_match", accuracy->exact},
                   {"held_out_pairs", data.held_out.size()}});
  }
  if (options.sample && !interrupted()) print_examples(model, data, report);
  report.next_steps();
  return interrupted() ? interrupted_exit_code : 0;
}

// pairs → tokenizer → loader → Transformer → loss, of which run_training makes a model
int train(const Seq2SeqOptions& options) {
  RunFolder folder = options.resumes() ? RunFolder::open(options) : RunFolder::create(options);
  const Text text = folder.text(options, own_pairs);
  const PairData data = read_pairs(text, options, folder.tokenizer());
  const nn::TransformerConfig config = options.model_config(data.vocab_size());
  check_memory(memory_of(config, options, data));

  Rng rng(options.seed);
  const nn::Params params = options.resumes()
                                ? nn::Params(folder.model(), DType::f32, options.precision())
                                : nn::Params(rng, DType::f32, options.precision());
  const nn::Transformer model(params, config);
  if (!options.resumes()) nn::init_transformer(params, rng);
  data::PairLoader loader(data.train, options.batch_size, data.special, rng);
  optim::AdamW adamw(params.parameters(), options.adamw_options());
  Rng own(options.seed, Rng::Kind::philox);
  Rng& dropout = options.one_generator() ? loader.rng() : own;
  Progress at;
  const TrainState state{params, adamw, loader, own, at};
  if (options.resumes()) folder.restore(state);
  folder.write_setup(options, {.model = config_to_json(config),
                               .training = json_of_options(options),
                               .text = text,
                               .tokenizer = data.tokenizer});
  const std::string sample = data.tokenizer.decode(data.held_out.front().source);
  Report report(
      folder, options, at,
      {"train-seq2seq", "translate", (sample.starts_with('-') ? "-- " : "") + quoted(sample)});
  report.header(describe(config, options, text, data));

  const auto next_loss = [&] {
    const PairTensors t = tensors_of(loader.next(), data.special);
    return BatchLoss{model.loss(t.sources, t.inputs, t.labels, t.masks, &dropout), t.tokens};
  };
  const auto evaluate = [&] { return estimate_losses(model, data, options); };
  const bool done = run_training({options, folder, report, state, next_loss, evaluate});
  return done ? finish(model, data, options, report) : interrupted_exit_code;
}

}  // namespace
}  // namespace tapegrad::apps

int main(int argc, char** argv) {
  using namespace tapegrad;
  return apps::run_main("train-seq2seq", [&] {
    const auto options = apps::parse_seq2seq_options(argc, argv);
    if (options && options->threads) set_num_threads(*options->threads);
    return options ? apps::train(*options) : 0;
  });
}
