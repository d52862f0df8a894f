// The plan of train-gpt, of options that were chosen and of facts: no text is read here, and no
// program is started.

#include "tapegrad/apps/train/gpt_facts.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_args.h"

using namespace tapegrad;

namespace {

// Names and values of all options of a run, but for that one.
std::vector<std::string> values_but(const gpt::Options& o, std::string_view but) {
  std::vector<std::string> values;
  for (const run::Section& section : run::config_of(o, run::kGPTFormat).sections) {
    for (const auto& [name, value] : section.values) {
      if (name != but) values.push_back(section.name + " " + name + " " + run::value_text(value));
    }
  }
  return values;
}

}  // namespace

TEST_CASE("a plan has the vocabulary of the text, and else what was chosen", "[gpt-facts]") {
  const gpt::Options said = parsed(tiny_run("text.txt", "run", 3));
  const gpt::Options plan = gpt::resolve(said, {.vocab_size = 31, .tokenizer = "gpt2"});
  CHECK(plan.model.vocab_size == 31);
  CHECK(values_but(plan, "vocab_size") == values_but(said, "vocab_size"));
  CHECK(plan.text.tokenizer == "char");  // it was given
  const gpt::Options tokens = parsed({"--data", "tokens"});
  CHECK(tokens.text.tokenizer.empty());
  CHECK(gpt::resolve(tokens, {.vocab_size = 31, .tokenizer = "gpt2"}).text.tokenizer == "gpt2");
}

TEST_CASE("--epochs becomes steps when the length of a pass is known", "[gpt-facts]") {
  const gpt::Options said =
      parsed({"--corpus", "text.txt", "--epochs", "3", "--gradient-accumulation-steps", "4"});
  CHECK(said.passes.epochs == 3);
  CHECK_FALSE(said.call.max_minutes);  // of the preset
  const gpt::Options plan = gpt::resolve(said, {.vocab_size = 31, .batches_per_epoch = 6});
  CHECK(plan.optimizer.max_iters == 5);  // 18 batches; the last step begins another pass
  CHECK_FALSE(plan.passes.epochs);
  const gpt::Options open = gpt::resolve(said, {.vocab_size = 31});
  CHECK(open.passes.epochs == 3);
  CHECK(open.optimizer.max_iters == said.optimizer.max_iters);
}

TEST_CASE("a text from stdin is no text that a run could read again", "[gpt-facts]") {
  const gpt::Options said = parsed({"-"});
  CHECK(said.text.corpus == std::vector<std::string>{"-"});
  CHECK(gpt::resolve(said, {.vocab_size = 31}).text.corpus.empty());
}

TEST_CASE("a plan keeps the fingerprints of models that must stay as they are", "[gpt-facts]") {
  gpt::Options said = parsed(tiny_run("text.txt", "run", 3));
  said.tuning.base = "stored", said.teaching.base = "before";
  const gpt::Options plan =
      gpt::resolve(said, {.vocab_size = 31, .base = "a start", .teacher = "a teacher"});
  CHECK(plan.tuning.base == "a start");
  CHECK(plan.teaching.base == "a teacher");
  const gpt::Options other = gpt::resolve(said, {.vocab_size = 31});
  CHECK(other.tuning.base == "stored");
  CHECK(other.teaching.base == "before");
}

TEST_CASE("--recompute auto goes by the room for a step that keeps all", "[gpt-facts]") {
  const gpt::Options said = parsed(tiny_run("text.txt", "run", 3) + Args{"--recompute", "auto"});
  double asked = 0;
  const auto plan_with = [&](bool room) {
    const auto fits = [&, room](const run::MemoryEstimate& step) {
      asked = step.total;
      return room;
    };
    return gpt::resolve(said, {.vocab_size = 31, .fits = fits, .room = "1 MB is available"});
  };
  const gpt::Options roomy = plan_with(true), narrow = plan_with(false);
  CHECK_FALSE(roomy.extras.recomputes());
  CHECK(narrow.extras.recomputes());
  CHECK(asked == gpt::memory_of(roomy).total);
  CHECK(asked > gpt::memory_of(narrow).total);
  const std::string why =
      ": without it, a step takes " + size_text(asked) + ", and 1 MB is available";
  CHECK(roomy.extras.recompute_note == "off" + why);
  CHECK(narrow.extras.recompute_note == "on" + why);
}

TEST_CASE("the text is read only if it decides the vocabulary, the memory if it decides",
          "[gpt-facts]") {
  const gpt::Facts facts =
      gpt::facts_without_text(parsed({"--corpus", "none.txt", "--tokenizer", "bpe:300"}));
  CHECK(facts.vocab_size == 300);
  CHECK_FALSE(facts.fits);
  CHECK(gpt::facts_without_text(parsed({"--tokenizer", "bpe:300", "--recompute", "auto"})).fits);
  check_fails([] { gpt::facts_without_text(parsed({"--corpus", "none.txt"})); }, 1, "none.txt");
}
