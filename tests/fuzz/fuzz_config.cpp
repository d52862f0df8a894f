// config.json of both kinds of run: as a run that is resumed, and as a model that is opened. What
// is accepted must be the same when it is written and read again.

#include "tapegrad/apps/seq2seq/seq2seq_program.h"
#include "tapegrad/apps/train/train_command.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

template <class Options, class Facts, class Plan>
bool reads(const cli::TrainingProgram<Options, Facts, Plan>& program) {
  return fuzz::accepts("config.json", [&] {
    const auto taken = [&] {
      const Options o = cli::options_of_run<Options>(program.format, fuzz::folder());
      static_cast<void>(cli::comparable_config(program.format, o));
      static_cast<void>(program.product(o));
      return run::config_of(o, program.format);
    };
    const run::Config config = taken();
    run::write_config(fuzz::folder() / run::kConfigFile, config);
    const run::Config again = taken();
    for (const run::Section& section : config.sections) {
      for (const auto& [name, value] : section.values) {
        const run::Value* other = again.at(section.name, "config.json").find(name);
        if (other == nullptr || run::value_text(*other) != run::value_text(value)) {
          fuzz::finding(name + " has changed: " + run::value_text(value));
        }
      }
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::put("config.json", fuzz::text_of(data, size));
  if (!reads(gpt::training())) reads(seq2seq::training());
  return 0;
}
