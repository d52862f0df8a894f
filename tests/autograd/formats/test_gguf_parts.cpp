// A model that is split into several GGUF files.

#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// Three parts of a model with two tensors, of which each part may become another.
struct Parts {
  struct Part {
    GgufKeys keys;
    std::vector<GgufTensor> tensors;
  };
  TempFolder folder;
  Part part[3];

  Parts() {
    for (std::int64_t i = 0; i < 3; ++i) {
      part[i].keys = {{"split.no", i},
                      {"split.count", std::int64_t{3}},
                      {"split.tensors.count", std::int64_t{2}}};
    }
    part[0].keys["text"] = std::string("é");
    put(1, "a", Tensor::full({2, 3}, 0.5));
    put(2, "b", Tensor::full({32}, -1.0));
  }
  void put(std::size_t i, const std::string& name, const Tensor& values) {
    part[i].tensors.push_back(
        {name, &stored_type("f32"), values.shape(), [values] { return values; }});
  }
  std::filesystem::path path(std::int64_t i) const {
    return folder / fmt::format("model-{:05}-of-00003.gguf", i + 1);
  }
  void write() const {
    for (std::int64_t i = 0; i < 3; ++i) write_gguf(path(i), part[i].keys, part[i].tensors);
  }
  std::string complaint(std::int64_t opened = 0) const {
    try {
      open_gguf_parts(path(opened));
      return "";
    } catch (const Error& e) {
      CHECK_THAT(e.what(), ContainsSubstring(folder.path().string()));
      return e.what();
    }
  }
};

}  // namespace

TEST_CASE("a model in several GGUF files opens by any of them", "[gguf_parts]") {
  const Parts parts;
  parts.write();
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto file = open_gguf_parts(parts.path(i));
    CHECK(file->name() == parts.path(0));
    CHECK(std::get<std::string>(file->keys().at("text")) == "é");
    CHECK(file->entries().size() == 2);
    CHECK(same_bits(file->read("a"), Tensor::full({2, 3}, 0.5)));
    CHECK(same_bits(file->read("b"), Tensor::full({32}, -1.0)));
    CHECK(file->stored("b").bytes() == 128);
  }
  write_gguf(parts.folder / "whole.gguf", {{"split.count", std::int64_t{1}}}, {});
  CHECK(open_gguf_parts(parts.folder / "whole.gguf")->entries().empty());
}

TEST_CASE("parts of a GGUF that are missing or contradict each other are refused", "[gguf_parts]") {
  const auto with = [](const auto& edit, std::int64_t opened = 0) {
    Parts parts;
    edit(parts.part);
    parts.write();
    return parts.complaint(opened);
  };
  CHECK(with([](auto&) {}) == "");
  const auto key = [&](std::size_t part, const char* name, const GgufValue& value,
                       std::int64_t opened = 0) {
    return with([&](auto& parts) { parts[part].keys[name] = value; }, opened);
  };
  using Whole = std::int64_t;
  CHECK_THAT(key(0, "split.count", Whole{513}), ContainsSubstring("no whole number from 0 to 512"));
  CHECK_THAT(key(0, "split.count", 3.0), ContainsSubstring("'split.count' is no whole number"));
  CHECK_THAT(key(0, "split.count", Whole{2}),
             ContainsSubstring("part 1 of 2, but its name does not end in '-00001-of-00002.gguf'"));
  CHECK_THAT(key(0, "split.no", Whole{3}), ContainsSubstring("no whole number from 0 to 2"));
  CHECK_THAT(key(0, "split.no", Whole{1}), ContainsSubstring("does not end in '-00002-of-00003"));
  CHECK_THAT(with([](auto& parts) { parts[0].keys.erase("split.no"); }),
             ContainsSubstring("there is no key 'split.no'"));
  CHECK_THAT(key(1, "split.no", Whole{2}),
             ContainsSubstring("00002-of-00003.gguf: it says that it is part 3 of 3, and not, as "
                               "its name does, part 2 of 3: fetch it again"));
  CHECK_THAT(key(1, "split.count", Whole{4}), ContainsSubstring("it says that it is part 2 of 4"));
  CHECK_THAT(
      with([](auto& parts) { parts[2].keys.erase("split.count"); }),
      ContainsSubstring("00003-of-00003.gguf: it is a part of a model, but there is no key"));
  CHECK_THAT(key(0, "split.tensors.count", Whole{3}, 2),
             ContainsSubstring("it says that all 3 parts have 3 tensors, but they have 2"));
  CHECK_THAT(key(2, "text", std::string("e")),
             ContainsSubstring("the key 'text' is not as ") && ContainsSubstring("00001-of"));
  CHECK_THAT(key(2, "more", true), ContainsSubstring("the key 'more' is not as "));
  CHECK(key(2, "text", std::string("é")) == "");
  CHECK_THAT(with([](auto& parts) { parts[1].tensors = parts[2].tensors; }),
             ContainsSubstring("another part has the tensor 'b', too"));
}

TEST_CASE("a part of a GGUF that is not there is named", "[gguf_parts]") {
  const Parts parts;
  parts.write();
  std::filesystem::remove(parts.path(1));
  CHECK_THAT(parts.complaint(2),
             ContainsSubstring("model-00002-of-00003.gguf: there is no such file, part 2 of the 3 "
                               "to which") &&
                 ContainsSubstring("all parts must be in one folder"));
  std::filesystem::rename(parts.path(2), parts.folder / "other.gguf");
  CHECK_THROWS_WITH(open_gguf_parts(parts.folder / "other.gguf"),
                    ContainsSubstring("part 3 of 3, but its name does not end in"));
}
