#pragma once

#include "tapegrad/run/models/formats/web_format.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

// A copy of the program with a page beside it, as scripts/web.sh makes one.
struct ProgramWithPage {
  TempFolder folder;
  std::filesystem::path program = folder / "bin/tapegrad";
  explicit ProgramWithPage(std::string_view page = "<script>/* model */</script>") {
    if (!page.empty()) folder.put(std::string(tapegrad::run::kWebPage), page);
    std::filesystem::create_directories(folder / "bin");
    std::filesystem::copy_file(
        std::filesystem::canonical(std::filesystem::path(tapegrad::places::kPrograms) / "tapegrad"),
        program);
  }
  Result exported(const std::filesystem::path& model, const std::filesystem::path& out,
                  const Args& more = {}) const {
    return run_program(program, Args{"export", model, "-o", out, "--format", "web"} + more);
  }
};
