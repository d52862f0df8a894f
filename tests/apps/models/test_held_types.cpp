#include "tapegrad/apps/sample/held_types.h"
#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/nn/formats/gguf.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

TEST_CASE("the types that a file holds are told by their shares of its bytes", "[held_types]") {
  const TempFolder folder;
  const auto tensor = [](const char* name, const char* type, const Shape& shape) {
    return nn::GgufTensor{name, &stored_type(type), shape, [shape] { return Tensor::ones(shape); }};
  };
  const auto path = folder / "file.gguf";
  nn::write_gguf(path, {},
                 {tensor("a", "q4_0", {12, 32}), tensor("b", "f32", {1}), tensor("c", "q8_0", {64}),
                  tensor("d", "q4_0", {2, 32})});
  // 252, 68 and 4 bytes for 513 weights.
  CHECK(sampling::held_types(nn::GgufFile(path)) ==
        "q4_0 77.8 %, q8_0 21 %, f32 1.23 %; 5.1 bits a weight");
  nn::write_gguf(path, {}, {tensor("b", "f32", {9})});
  CHECK(sampling::held_types(nn::GgufFile(path)) == "");
  nn::write_gguf(path, {}, {});
  CHECK(sampling::held_types(nn::GgufFile(path)) == "");
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
