#include "tapegrad/apps/train/text_notes.h"

#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/corpus/prepare/prepare.h"

namespace tapegrad::gpt {
namespace {

// The options of tapegrad prepare that make tokens of the run's text, as train-gpt would.
std::string prepare_options(const run::TextOptions& text, std::uint64_t seed) {
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
  add("--seed", std::to_string(seed), seed == usual.seed);
  return options + " --tokenizer " + cli::quoted(text.tokenizer);
}

void print_note_of_size(const run::TextOptions& o, std::uint64_t seed,
                        const run::LearntText& learnt) {
  constexpr std::int64_t large = 100'000'000;
  const run::Text& text = learnt.text;
  const run::TextData& data = learnt.data;
  const std::int64_t bytes = text.identity.bytes + (text.val ? text.val->identity.bytes : 0);
  if (text.tokens || bytes < large || o.corpus.empty() || !text.mixture.empty()) return;
  const double held =
      static_cast<double>(bytes) + 4.0 * static_cast<double>(data.train.size() + data.val.size());
  print_error(fmt::format(
      "note: tokenising {:.0f} MB took {}, and text and tokens stay in memory, {:.0f} MB. Each "
      "start does this again. To do it once, with the tokens in files:\n"
      "  {}{} --out-dir DIR\n  {} --data DIR\n",
      static_cast<double>(bytes) / 1e6, duration_text(learnt.seconds), held / 1e6,
      cli::program_path("tapegrad prepare"), prepare_options(o, seed),
      cli::program_path("tapegrad train")));
}

}  // namespace

void print_notes(const run::TextOptions& o, std::uint64_t seed, const run::LearntText& learnt) {
  print_note_of_size(o, seed, learnt);
  const data::TokenSource& train = learnt.data.train;
  if (!train.isolated_by() || data::has_documents(train, *train.isolated_by())) return;
  print_error(fmt::format(
      "note: {} is a single document, so that --isolate-documents keeps nothing apart. --separator "
      "names what stands between documents\n",
      learnt.text.identity.name));
}

std::string text_name(const run::Text& text) {
  return text.identity.name + (text.val ? " and, to validate, " + text.val->identity.name : "");
}

std::string amount(const data::TokenSource& tokens, std::int64_t documents) {
  const std::string text = counted(tokens.size(), "token");
  return documents == 0 ? text : fmt::format("{} of {}", text, counted(documents, "document"));
}

}  // namespace tapegrad::gpt
