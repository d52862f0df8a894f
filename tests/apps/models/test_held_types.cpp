#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

TEST_CASE("the types that a file holds are told by their shares of its bytes", "[held_types]") {
  const TempFolder folder;
  const auto tensor = [](const char* name, const char* type, const Shape& shape) {
    return GgufTensor{name, &stored_type(type), shape, [shape] { return Tensor::ones(shape); }};
  };
  const auto path = folder / "file.gguf";
  write_gguf(path, {},
             {tensor("a", "q4_0", {12, 32}), tensor("b", "f32", {1}), tensor("c", "q8_0", {64}),
              tensor("d", "q4_0", {2, 32})});
  // 252, 68 and 4 bytes for 513 weights.
  CHECK(sampling::held_types(GgufFile(path)) ==
        "q4_0 77.8 %, q8_0 21 %, f32 1.23 %; 5.1 bits a weight");
  write_gguf(path, {}, {tensor("b", "f32", {9})});
  CHECK(sampling::held_types(GgufFile(path)) == "");
  write_gguf(path, {}, {});
  CHECK(sampling::held_types(GgufFile(path)) == "");
}

TEST_CASE("sample-text says which types a file holds, unless all are f32", "[held_types]") {
  const TinyRun run(1);
  const auto err_of = [&](const std::string& type) {
    const std::string path = run.folder / (type + ".gguf");
    REQUIRE(run_program("tapegrad", {"export", "--model", run.run, "--out", path, "--dtype", type})
                .code == 0);
    const Result r =
        run_program("sample-text", {"--model", path, "--prompt", "the", "--max-new-tokens", "1"});
    INFO(r.err);
    CHECK(r.code == 0);
    return r.err;
  };
  CHECK_THAT(err_of("f16"), ContainsSubstring("f16.gguf holds f16 "));
  CHECK_THAT(err_of("f32"), !ContainsSubstring("holds"));
}

namespace {

const TinyRun& narrow() {
  static const TinyRun run(1);
  return run;
}

// Each matrix of the narrow run has rows of 16 or 64: none fills blocks of 256.
const std::string kNoneFits =
    "10 of 10 matrices have rows that are no multiple of 256, and are not q4_k: ";

}  // namespace

TEST_CASE("programs say which matrices --weights could not convert", "[held_types]") {
  const std::string text = narrow().folder.put("short.txt", "the cat sat on mat 1");
  const std::string expected = "--weights q4_k: " + kNoneFits + "10 are f32\n";
  const std::map<std::string, Args> calls = {
      {"sample", {"--prompt", "the", "--max-new-tokens", "1"}},
      {"evaluate", {text}},
      {"inspect", {"the cat"}}};
  for (const auto& call : calls) {
    const auto& program = call.first;
    const auto& args = call.second;
    INFO(program);
    const auto err_with = [&](const std::string& weights) {
      const Result r =
          run_program(program, Args{"--model", narrow().run, "--weights", weights} + args);
      check_ended_well(r);
      return r.err;
    };
    CHECK_THAT(err_with("q4_k"), ContainsSubstring(expected));
    CHECK_THAT(err_with("bf16"), !ContainsSubstring("matrices"));
  }
  const Args arguments = {"--model", narrow().run, "--weights", "q4_k", "--max-new-tokens", "1"};
  const Result chat =
      Program("chat", arguments, ".", narrow().folder.put("line.txt", "the\n")).wait();
  check_ended_well(chat);
  CHECK_THAT(chat.err, ContainsSubstring(expected));
  // Rows of 64 fill blocks of 32.
  const Result some = run_program("evaluate", {"--model", narrow().run, "--weights", "q8_0", text});
  check_ended_well(some);
  CHECK_THAT(some.err, ContainsSubstring("--weights q8_0: 8 of 10 matrices have rows that are no "
                                         "multiple of 32, and are not q8_0: 8 are f32"));
}

TEST_CASE("export says which matrices are stored as another type", "[held_types]") {
  const auto out_of = [&](const std::string& type) {
    const Result r = run_program("export", {"--model", narrow().run, "--dtype", type, "--overwrite",
                                            "--out", narrow().folder / "narrow.gguf"});
    check_ended_well(r);
    return r.out;
  };
  CHECK_THAT(out_of("q4_k"), ContainsSubstring(kNoneFits + "8 are f16, 2 are q5_0\n"));
  CHECK_THAT(out_of("bf16"), !ContainsSubstring("matrices"));
}
