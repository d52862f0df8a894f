// Which OpenBLAS is loaded, and with which kernels.

#include <cstdlib>
#include <optional>

#include "tapegrad/autograd/gemm/internal/openblas_library.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

using namespace tapegrad;

namespace {

using Names = std::vector<std::string>;

// A training program's header with these variables in its environment, and the rest of its output.
Result header(const std::vector<std::pair<std::string, std::optional<std::string>>>& variables) {
  const TempFolder folder;
  folder.put("text.txt", tiny_text());
  std::vector<std::optional<std::string>> before;
  const auto set = [](const std::string& name, const std::optional<std::string>& value) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  };
  for (const auto& variable : variables) {
    const char* value = std::getenv(variable.first.c_str());
    before.push_back(value == nullptr ? std::optional<std::string>() : value);
    set(variable.first, variable.second);
  }
  const Result r = run_program("train-gpt", tiny_run(folder / "text.txt", folder / "run", 0) +
                                                Args{"--gemm", "openblas", "--verbose"});
  for (std::size_t i = 0; i < variables.size(); ++i) set(variables[i].first, before[i]);
  return r;
}

}  // namespace

TEST_CASE("kernels that are weaker than the processor have better ones, and others have none",
          "[openblas]") {
  const auto better = [](std::string_view chosen, Isa isa, bool bf16 = false, bool amd = false) {
    return better_kernels(chosen, isa, bf16, amd);
  };
  CHECK(better("Prescott", Isa::avx512) == Names{"SkylakeX", "Haswell"});
  CHECK(better("Prescott", Isa::avx512, true) == Names{"Cooperlake", "SkylakeX", "Haswell"});
  CHECK(better("Zen", Isa::avx512, true, true) == Names{"Cooperlake", "SkylakeX"});
  CHECK(better("Nehalem", Isa::avx2) == Names{"Haswell"});
  CHECK(better("Barcelona", Isa::avx2, false, true) == Names{"Zen"});
  CHECK(better("core2", Isa::avx) == Names{"Sandybridge"});
  CHECK(better("SkylakeX", Isa::avx512, true).empty());
  CHECK(better("SapphireRapids", Isa::avx512, true).empty());
  CHECK(better("Haswell", Isa::avx2).empty());
  CHECK(better("Haswell", Isa::basic).empty());  // set by hand, perhaps: not ours to lower
  CHECK(better("NeoverseN1", Isa::avx512).empty());
}

TEST_CASE("an OpenBLAS that chooses weak kernels is told better ones", "[openblas]") {
  const Result r =
      header({{"TAPEGRAD_OPENBLAS", places::kOldOpenblas}, {"OPENBLAS_CORETYPE", std::nullopt}});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  if (processor_isa() < Isa::avx2) return;
  CHECK_THAT(r.out, ContainsSubstring("(its own choice was Prescott); "));
  CHECK_THAT(r.out, !ContainsSubstring(", Prescott kernels"));
}

TEST_CASE("OPENBLAS_CORETYPE wins, and is reported", "[openblas]") {
#if defined(__aarch64__)
  const std::string kernels = "cortexa57";
#else
  const std::string kernels = "Nehalem";
#endif
  const Result r = header({{"OPENBLAS_CORETYPE", kernels}});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring(kernels + " kernels (by OPENBLAS_CORETYPE)"));
}

TEST_CASE("an OpenBLAS that cannot be used is an error that says what to do", "[openblas]") {
  const Result missing = header({{"TAPEGRAD_OPENBLAS", "/no/such/libopenblas.so"}});
  CHECK(missing.code == 1);
  CHECK_THAT(missing.err, ContainsSubstring("OpenBLAS cannot be loaded: /no/such/libopenblas.so"));
  CHECK_THAT(missing.err, ContainsSubstring("Install libopenblas-openmp-dev"));
  const Result wrong = header({{"TAPEGRAD_OPENBLAS", "libm.so.6"}});
  CHECK(wrong.code == 1);
  CHECK_THAT(wrong.err, ContainsSubstring("libm.so.6 is not an OpenBLAS: it has no function"));
}
