#pragma once

#include <cstdlib>

#include "tests/apps/program.h"
#include "tests/catch.h"

inline Result train(const Args& args, const std::filesystem::path& folder = ".") {
  return run_program("train-gpt", args, folder);
}

// A folder with a tiny text and a run of `iters` steps on it.
struct TinyRun {
  TempFolder folder;
  std::filesystem::path text = folder.put("text.txt", tiny_text());
  std::filesystem::path run = folder / "run";

  explicit TinyRun(int iters, const Args& more = {}) {
    const Result r = train(tiny_run(text, run, iters) + more);
    INFO(r.out << r.err);
    REQUIRE(r.code == 0);
  }
  std::string file(std::string_view name) const { return TempFolder::get(run / name); }
};

inline void check_error(const Result& r, int code, const std::string& text) {
  INFO(r.out << r.err);
  CHECK(r.code == code);
  CHECK(r.err.rfind("train-gpt: error: ", 0) == 0);
  CHECK_THAT(r.err, ContainsSubstring(text));
}
