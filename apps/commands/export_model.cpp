#include <fmt/ranges.h>

#include <system_error>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/watch/report/model_page.h"
#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/folder/file_names.h"
#include "tapegrad/run/models/formats/export.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, out;
  std::vector<std::string> words;
  std::optional<std::string> adapter;
  std::string format, dtype;
  bool overwrite = false;
  cli::ComputeOptions compute;
};

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Writes a GPT in the format of another program, or an encoder-decoder of tapegrad seq2seq "
      "(onnx).\n"
      "What that format cannot express is refused by name, and nothing is written then. LoRA\n"
      "adapters are merged into the weights, or written by themselves (peft, gguf-lora).");
  cli.words(o.words, "MODEL", "the same as --model MODEL");
  std::vector<std::string> formats;
  for (const run::ExportFormat& format : run::export_formats()) {
    formats.emplace_back(format.name);
    cli.list("Formats", formats.back(),
             fmt::format("{}: {}", format.title, names_of(format.types)));
  }
  cli.group("Model");
  cli("model", o.model, "a run folder, or a model of another program", {.value = "PATH"});
  cli.alias("-m", "--model");
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter, "LoRA adapters to merge into it: a folder of PEFT's, or a GGUF",
      {.value = "PATH"});
  cli.group("Output");
  cli.choice("format", o.format, formats,
             "format of the program that will open it [gguf or html if --out ends with that]");
  std::vector<std::string> types;
  for (const StoredType* type : run::export_types()) types.emplace_back(type->name);
  cli.choice("dtype", o.dtype, types, "type of the weights in the file [f32]");
  cli("out", o.out, "the folder or file that is written", {.value = "PATH"});
  cli.alias("-o", "--out");
  cli("overwrite", o.overwrite, "replace files of an earlier export");
  cli.options(o.compute);
  cli.example("tapegrad export runs/notes-1 --format hf --out models/notes",
              "for transformers, in f32");
  cli.example("tapegrad export runs/notes-1 --checkpoint best --format hf --dtype bf16 --out best",
              "half the size");
  cli.example("tapegrad export runs/notes-1 --dtype q8_0 --out notes.gguf", "for llama.cpp");
  cli.example("tapegrad export runs/notes-1 --format onnx --dtype f16 --out models/notes-js",
              "for transformers.js and onnxruntime");
  cli.example("tapegrad export runs/dates-1 --format onnx --out models/dates",
              "an encoder-decoder, for the same");
  cli.example("tapegrad export runs/notes-1 --out notes.html",
              "a page that writes texts with the model, in any browser");
  cli.example("tapegrad export runs/letters --format gguf-lora --out letters.gguf",
              "adapters alone, for llama.cpp's --lora");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, o.words);
  cli::refuse_words(o.words);
  if (o.format.empty() && o.out.ends_with(".gguf")) o.format = "gguf";
  if ((o.format.empty() || o.format == "web") && o.out.ends_with(".html")) o.format = "html";
  if (o.format.empty()) cli::usage_error("--format is needed: {}", fmt::join(formats, ", "));
  if (o.out.empty()) cli::usage_error("--out is needed: the folder or file that is written");
  cli::use_compute(o.compute);
  return o;
}

run::Exported exported(const Options& o, const run::ExportFormat& format, const StoredType& type) {
  if (run::is_translator(o.model)) {
    check(!o.adapter, "{}: an encoder-decoder has no adapters, and --adapter does not apply",
          o.model);
    return run::export_translator(run::load_translator(o.model, o.checkpoint), format, o.out, type,
                                  o.overwrite);
  }
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  if (format.write_adapters != nullptr) {
    return run::export_adapters(opened, format, o.out, o.overwrite);
  }
  return run::export_model(run::load(std::move(opened)), format, o.out, type, o.overwrite);
}

// The page is written already: an error is printed; the program still succeeds.
void link_in_report(const std::filesystem::path& folder, const std::filesystem::path& written) {
  try {
    const auto page = watch::model_page_of(folder);
    std::error_code none;  // of what is no file any more: then it is another one
    if (!page || !std::filesystem::equivalent(page->written, written, none)) return;
    if (!watch::link_model_page(folder)) return;
    fmt::print("linked in {}\n", (folder / run::kReportFile).string());
  } catch (const std::exception& error) {
    print_error(fmt::format("note: no link in the run's report: {}\n", error.what()));
  }
}

int export_it(const Options& o) {
  const run::ExportFormat& format = run::export_format(o.format);
  const StoredType& type = o.dtype.empty() ? *format.types.front() : stored_type(o.dtype);
  run::check_export(format, o.out, type, o.overwrite);  // before the weights are read
  const run::Exported written = exported(o, format, type);
  fmt::print("wrote {}, {}: {}{}{}\n", format.title, type.name, o.out,
             written.files.empty() ? "" : "/: ", fmt::join(written.files, ", "));
  if (!written.other_types.empty()) fmt::print("{}\n", written.other_types);
  fmt::print("open: {}\n", written.use);
  if (format.name == "html" || format.name == "web") link_in_report(o.model, o.out);
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? export_it(*options) : 0;
  });
}

const cli::Command kCommand("export", cli::CommandGroup::use,
                            "write a GPT in the format of another program", run);

}  // namespace
}  // namespace tapegrad
