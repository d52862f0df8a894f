#include <cmath>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/sample/evaluate_text.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/json_file.h"
#include "tapegrad/data/corpus/corpus.h"
#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, weights{run::kStored}, limit = "all";
  std::vector<std::string> paths;
  std::string data, field = "text", encoding = "utf-8", separator;
  std::optional<std::int64_t> block_size, stride;
  std::int64_t batch_size = 8;
  bool json = false, beside_f32 = false;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(call.name,
                       "Tells how well a GPT predicts a text: its mean loss in nats per token,\n"
                       "perplexity, and bits per byte.");
  cli.words(o.paths, "MODEL PATH", "files and folders of text; - is stdin");
  cli.group("Model");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli.choice("weights", o.weights, run::packed_weights(),
             "how weights lie in memory: as the files have them, or converted to a type");
  cli("beside_f32", o.beside_f32,
      "also say how far the predictions are from those of the weights in f32");
  cli.group("Text");
  cli("data", o.data, "folder of tokens, in place of PATH; its validation part is evaluated",
      {.value = "DIR"});
  cli("field", o.field, "field that has the text in JSON lines (.jsonl)", {.value = "NAME"});
  cli("encoding", o.encoding, "encoding of the files, such as latin-1", {.value = "NAME"});
  cli("separator", o.separator,
      "text between two documents of a file, beside <|endoftext|>; \\n is a line break");
  cli.group("Windows");
  cli("block_size", o.block_size,
      "tokens that the model sees at once [those of the run's training, or of the model]",
      {.least = 2});
  cli("stride", o.stride,
      "tokens from one window to the next; each token is predicted once, from at least block-size "
      "- N tokens before it [windows side by side]",
      {.least = 1});
  cli("batch_size", o.batch_size, "windows per forward pass", {.least = 1, .most = 1 << 16});
  cli("limit", o.limit, "batches to evaluate, spread over the text: all or N", {.value = "all|N"});
  cli.group("Output");
  cli("json", o.json, "print one JSON object");
  cli.options(o.compute);
  cli.example("tapegrad evaluate runs/notes-1 new-notes/", "all text files below a folder");
  cli.example("tapegrad evaluate runs/notes-1 --stride 32 book.txt --json",
              "a sliding window, for other programs");
  cli.example("tapegrad evaluate runs/notes-1 book.txt --weights q8_0 --beside-f32",
              "what is lost by rounding weights");
  cli.example("tapegrad evaluate SmolLM2-135M.gguf book.txt",
              "a model of another program: GGUF, or a folder of Hugging Face's");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, o.paths);
  if (o.paths.empty() && o.data.empty()) {
    cli::usage_error("a PATH is needed: the text to evaluate");
  }
  if (!o.data.empty()) {
    if (!o.paths.empty()) cli::usage_error("--data and PATH exclude each other");
    o.paths = {o.data};
  }
  if (!data::is_encoding(o.encoding)) {
    cli::usage_error("--encoding: there is no encoding '{}'; `iconv --list` has all", o.encoding);
  }
  const bool named = o.limit == "auto" || o.limit == "none";
  cli::as_usage([&] {
    check(!named, "--limit: '{}' is not all or a number of batches", o.limit);
    run::evaluation_limit(o.limit, 0);
  });
  cli::use_compute(o.compute);
  return o;
}

Json json_of(const Options& o, const run::WindowOptions& windows, const std::string& text,
             const sampling::Evaluated& e) {
  Json json = {{"model", o.model},
               {"checkpoint", o.checkpoint},
               {"weights", o.weights},
               {"text", text},
               {"block_size", windows.block_size},
               {"stride", tapegrad::json_of(windows.stride)},
               {"tokens", e.loss.tokens},
               {"share", e.loss.share},
               {"loss", e.loss.loss},
               {"perplexity", e.loss.perplexity},
               {"bits_per_byte", e.loss.bits_per_byte},
               {"seconds", e.seconds}};
  if (const auto& f32 = e.loss.beside) {
    json["f32"] = {{"loss", f32->loss},
                   {"perplexity", f32->perplexity},
                   {"divergence", f32->divergence},
                   {"same_choice", f32->same_choice}};
  }
  return json;
}

int evaluate(const Options& o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  std::optional<run::TextModel> f32;
  if (o.beside_f32) f32 = run::load_packed(run::open_model(o.model, o.checkpoint), "f32");
  const std::int64_t longest = opened.config.block_size;
  const std::int64_t usual = opened.training_length.value_or(longest);
  const run::TextModel model = run::load_packed(std::move(opened), o.weights);
  run::WindowOptions windows{.batch_size = o.batch_size,
                             .block_size = o.block_size.value_or(usual),
                             .stride = o.stride,
                             .limit = *run::evaluation_limit(o.limit, 0),
                             .beside = f32 ? &f32->gpt : nullptr};
  check(windows.block_size <= longest,
        "--block-size {} is more than the {} tokens that the model can see", windows.block_size,
        longest);
  check(!o.stride || *o.stride <= windows.block_size,
        "--stride {} is above the block size of {}, so that tokens would be left out", *o.stride,
        windows.block_size);
  const run::Text text =
      run::read_text({o.paths, o.field, o.encoding, {}, /*is_data=*/!o.data.empty()});
  const auto result =
      sampling::evaluate_text(model, run::tokens_of(text, model.tokenizer, o.separator), windows);
  if (!result) return kInterruptedExitCode;
  check(!std::isnan(result->loss.loss), "{}: the loss is NaN: {}", o.model,
        "the model's weights are broken, or so large that they overflow");
  const std::string& name = text.tokens ? text.tokens->val_name : text.identity.name;
  if (o.json) {
    fmt::print("{}\n", json_text(json_of(o, windows, name, *result), 2));
  } else {
    fmt::print("{}: {}\n", name, result->line());
    if (const auto& of_f32 = result->loss.beside) {
      fmt::print(
          "in f32: perplexity {:.4f}, here {:.4f} ({:+.3f} %); mean KL divergence {:.3g} nats; the "
          "same "
          "likeliest token for {:.2f} %\n",
          of_f32->perplexity, result->loss.perplexity,
          100 * (result->loss.perplexity / of_f32->perplexity - 1), of_f32->divergence,
          100 * of_f32->same_choice);
    }
  }
  return interrupted() ? kInterruptedExitCode : 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? evaluate(*options) : 0;
  });
}

const cli::Command kCommand("evaluate", cli::CommandGroup::use,
                            "measure how well a GPT predicts a text", run);

}  // namespace
}  // namespace tapegrad
