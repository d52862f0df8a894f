// Files for --config, in each of their forms.

#include "tapegrad/apps/cli/config_file.h"
#include "tapegrad/apps/cli/nanogpt_names.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::put("options.ini", fuzz::text_of(data, size));
  fuzz::accepts("options.ini", [&] {
    const cli::ConfigFile file = cli::read_config_file(path, cli::ignored_of_nanogpt);
    for (const cli::ConfigItem& item : file.items) {
      if (item.where.find("options.ini") == item.where.npos) fuzz::finding("no place is named");
    }
  });
  return 0;
}
