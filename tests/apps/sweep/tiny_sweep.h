#pragma once

#include <algorithm>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/tests/apps/tiny_runs.h"

// Arguments without an option and its value.
inline Args without(Args args, const std::string& option) {
  const auto at = std::find(args.begin(), args.end(), option);
  args.erase(at, at + 2);
  return args;
}

// A sweep on a tiny text.
struct TinySweep {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("text.txt", tiny_text());
  std::filesystem::path out = folder / "out";

  // The arguments of runs of `iters` steps with these options of the sweep.
  Args args(const Args& sweep, int iters = 6, const Args& more = {}) const {
    Args run = tiny_run(corpus, out, iters) + more;
    for (const char* option : {"--out-dir", "--preset", "--lr-decay-iters"}) {
      run = without(run, option);
    }
    return Args{"sweep", "--preset", "char-cpu", "--out-dir", out} + sweep + Args{"--"} + run;
  }
  Result run(const Args& sweep, int iters = 6, const Args& more = {}) const {
    return run_program("tapegrad", args(sweep, iters, more));
  }
  tapegrad::Json record() const { return tapegrad::read_json_object(out / "sweep.json"); }
  std::string file(const std::string& name) const { return TempFolder::get(out / name); }
};
