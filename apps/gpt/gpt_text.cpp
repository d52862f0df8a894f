#include "tapegrad/apps/gpt/gpt_text.h"

#include <optional>

#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/gpt/gpt_program.h"
#include "tapegrad/apps/gpt/init_from.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/corpus/prepare.h"
#include "tapegrad/run/corpus/token_folder.h"
#include "tapegrad/run/plan/seconds_of.h"

namespace tapegrad::gpt {
namespace {

// The options of tapegrad prepare that make tokens of the run's text, as train-gpt would.
std::string prepare_options(const Options& o) {
  const run::TextOptions& text = o.text;
  const run::PrepareOptions usual;
  std::string options = " --corpus";
  for (const std::string& path : text.corpus) options += " " + cli::quoted(path);
  const auto add = [&](const std::string& option, const std::string& value, bool is_usual) {
    if (!is_usual) options += " " + option + " " + cli::quoted(value);
  };
  add("--field", text.field, text.field == usual.field);
  add("--encoding", text.encoding, text.encoding == usual.encoding);
  add("--separator", text.separator, text.separator == usual.separator);
  if (!text.val.empty()) options += " --val";
  for (const std::string& path : text.val) options += " " + cli::quoted(path);
  if (text.val_fraction) options += fmt::format(" --val-fraction {}", *text.val_fraction);
  add("--seed", std::to_string(o.random.seed), o.random.seed == usual.seed);
  return options + " --tokenizer " + cli::quoted(text.tokenizer);
}

// What a start with a large text costs, and what saves it.
void print_note(const Options& o, const run::Text& text, const run::TextData& data,
                double seconds) {
  constexpr std::int64_t large = 100'000'000;
  const std::int64_t bytes = text.identity.bytes + (text.val ? text.val->identity.bytes : 0);
  if (text.tokens || bytes < large || o.text.corpus.empty()) return;
  const double held =
      static_cast<double>(bytes) + 4.0 * static_cast<double>(data.train.size() + data.val.size());
  print_error(fmt::format(
      "note: tokenising {:.0f} MB took {}, and text and tokens stay in memory, {:.0f} MB. Each "
      "start does this again. To do it once, with the tokens in files:\n"
      "  {}{} --out-dir DIR\n  {} --data DIR\n",
      static_cast<double>(bytes) / 1e6, duration_text(seconds), held / 1e6,
      cli::program_path("tapegrad prepare"), prepare_options(o),
      cli::program_path("tapegrad train")));
}

run::TextData tokens_of_run(const run::Text& text, const Options& o) {
  const auto given = given_tokenizer(o);
  const run::Division division = o.text.division(o.random.seed);
  if (!given) {
    return run::tokenize(
        text,
        run::make_tokenizer(o.text, o.random.seed, [&]() -> const run::Text& { return text; }),
        division, o.model.block_size);
  }
  try {
    return run::tokenize(text, *given, division, o.model.block_size);
  } catch (const Error& error) {
    const run::FolderOptions& folder = o.call.folder;
    fail("{}: {} (the tokenizer is that of {})", text.identity.name, error.what(),
         folder.resumes() ? folder.out_dir : folder.init_from);
  }
}

}  // namespace

run::Text read_text(const Options& o, const run::RunFolder& folder) {
  return folder.resumes() ? run::text_of_run(folder.path(), run::kGPTFormat, o.text.source())
                          : run::text_of_new_run(o.text.source(), own_sources);
}

run::TextData read_data(run::Text& text, const Options& o) {
  std::optional<run::TextData> data;
  const double seconds = run::seconds_of([&] { data.emplace(tokens_of_run(text, o)); });
  run::check_tokens(text, data->tokenizer.vocab_size());
  print_note(o, text, *data, seconds);
  return std::move(*data);
}

std::string text_name(const run::Text& text) {
  return text.identity.name + (text.val ? " and, to validate, " + text.val->identity.name : "");
}

std::string amount(const data::Tokens& tokens, std::int64_t documents) {
  const std::string text = grouped(tokens.size()) + " tokens";
  return documents == 0 ? text
                        : fmt::format("{} of {} document{}", text, grouped(documents),
                                      documents == 1 ? "" : "s");
}

}  // namespace tapegrad::gpt
