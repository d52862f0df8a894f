#include <nlohmann/json.hpp>

#include "tapegrad/base/error.h"
#include "tapegrad/data/data_folder.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/data/token_values.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

using nlohmann::ordered_json;

const std::string kText = "abcdefgh";

ShardInfo write(const std::filesystem::path& path, TokenFormat format,
                const std::vector<Token>& tokens) {
  ShardWriter writer(path, format, 16);
  writer.write(tokens);
  return writer.finish();
}

// Two shards to train with and one to validate.
struct Prepared {
  TempFolder folder;
  explicit Prepared(TokenFormat format = TokenFormat::nanogpt) {
    DataInfo info{.format = format,
                  .train = {{write(folder / "train_000000.bin", format, {0, 1, 2}),
                             write(folder / "train_000001.bin", format, {3, 4})},
                            5},
                  .val = {{write(folder / "val.bin", format, {5, 6})}, 2},
                  .source = {"2 files", 70, "abc"},
                  .vocab_size = 0,
                  .tokenizer = {}};
    write_data_json(folder.path(), info, Tokenizer::of_characters(kText));
  }
  void edit(const std::function<void(ordered_json&)>& change) const {
    ordered_json json = ordered_json::parse(TempFolder::get(folder / kDataFile));
    change(json);
    folder.put(kDataFile, json.dump());
  }
  std::string complaint() const {
    try {
      open_data_folder(folder.path());
      return "";
    } catch (const Error& error) {
      CHECK_THAT(error.what(), ContainsSubstring(folder.path().string()));
      return error.what();
    }
  }
};

}  // namespace

TEST_CASE("a prepared folder opens as what was written", "[data_folder]") {
  for (const auto format : {TokenFormat::nanogpt, TokenFormat::llmc}) {
    const Prepared prepared(format);
    CHECK(is_data_folder(prepared.folder.path()));
    const DataFolder data = open_data_folder(prepared.folder.path());
    CHECK(values_of(TokenSource(data.train)) == std::vector<Token>{0, 1, 2, 3, 4});
    CHECK(values_of(TokenSource(data.val)) == std::vector<Token>{5, 6});
    CHECK(data.tokenizer.decode(std::vector<Token>{0, 7}) == "ah");
    CHECK(data.info.format == format);
    CHECK(data.info.train.documents == 5);
    CHECK(data.info.val.documents == 2);
    CHECK(data.info.train.tokens() == 5);
    CHECK(data.info.source.name == "2 files");
    CHECK(data.info.source.bytes == 70);
    CHECK(data.info.source.fingerprint == "abc");
    CHECK(scan_shard(data.train[1], 8) == data.info.train.shards[1]);
  }
}

TEST_CASE("another shard, order or part makes another fingerprint", "[data_folder]") {
  const ShardInfo a{"a", 1, 2, 3}, b{"b", 1, 2, 4};
  const std::string first = fingerprint_of({a, b}, {});
  CHECK(fingerprint_of({b, a}, {}) != first);
  CHECK(fingerprint_of({a}, {b}) != first);
  CHECK(fingerprint_of({a, a}, {}) != first);
  const ShardInfo renamed{"c", 1, 2, 3};
  CHECK(fingerprint_of({renamed, b}, {}) == first);
}

TEST_CASE("a folder whose files do not fit its data.json is refused by name", "[data_folder]") {
  const Prepared prepared;
  const TempFolder& folder = prepared.folder;
  CHECK(prepared.complaint() == "");
  const std::string shard = TempFolder::get(folder / "train_000001.bin");
  folder.put("train_000001.bin", shard.substr(0, 2));
  CHECK_THAT(prepared.complaint(),
             ContainsSubstring("train_000001.bin: it has 1 tokens in 2 bytes, but data.json says"));
  folder.put("train_000001.bin", shard + shard);
  CHECK_THAT(prepared.complaint(), ContainsSubstring("it was cut or replaced"));
  std::filesystem::remove(folder / "train_000001.bin");
  CHECK_THAT(prepared.complaint(), ContainsSubstring("train_000001.bin"));
  folder.put("train_000001.bin", shard);
  CHECK(prepared.complaint() == "");
  Tokenizer::of_characters("abcdefgi").save(folder / kDataTokenizerFile);
  CHECK_THAT(prepared.complaint(), ContainsSubstring("tokenizer.json: it is not the tokenizer"));
  std::filesystem::remove(folder / kDataTokenizerFile);
  CHECK_THAT(prepared.complaint(), ContainsSubstring("tokenizer.json"));
}

TEST_CASE("a prepared folder does not lead out of itself", "[data_folder]") {
  const Prepared prepared;
  const std::filesystem::path shard = prepared.folder / "val.bin";
  const TempFolder elsewhere;
  const std::filesystem::path target = elsewhere.put("val.bin", TempFolder::get(shard));
  std::filesystem::remove(shard);
  std::filesystem::create_symlink(target, shard);
  CHECK_THAT(prepared.complaint(), ContainsSubstring("val.bin"));
  CHECK(open_shard(shard).count == 2);  // a single file may be one
}

TEST_CASE("a data.json of something else makes no prepared folder", "[data_folder]") {
  const TempFolder folder;
  CHECK(!is_data_folder(folder.path()));
  for (const char* other : {"{}", "[1]", "no JSON", "", R"({"format": "x"})", R"({"format": 1})"}) {
    folder.put(kDataFile, other);
    CHECK(!is_data_folder(folder.path()));
  }
  folder.put(kDataFile, R"({"format": "tapegrad-data"})");
  CHECK(is_data_folder(folder.path()));
}

TEST_CASE("a data.json that cannot be right is refused", "[data_folder]") {
  const auto complaint = [](const std::function<void(ordered_json&)>& change) {
    const Prepared prepared;
    prepared.edit(change);
    return prepared.complaint();
  };
  const auto of_shard = [&](const char* name, const ordered_json& value) {
    return complaint([&](ordered_json& json) { json["train"]["files"][0][name] = value; });
  };
  CHECK(complaint([](ordered_json&) {}) == "");
  CHECK_THAT(complaint([](auto& json) { json["version"] = 3; }),
             ContainsSubstring("its version is 3"));
  CHECK_THAT(complaint([](auto& json) { json["format"] = "x"; }),
             ContainsSubstring("tapegrad-data"));
  CHECK_THAT(complaint([](auto& json) { json["files"] = "x"; }), ContainsSubstring("'files'"));
  CHECK_THAT(complaint([](auto& json) { json["files"] = "llm.c"; }),
             ContainsSubstring("llm.c's header"));
  CHECK_THAT(complaint([](auto& json) { json["bits"] = 32; }), ContainsSubstring("'bits'"));
  CHECK_THAT(complaint([](auto& json) { json["tokenizer"]["vocab_size"] = 9; }),
             ContainsSubstring("tokenizer of 9 tokens"));
  CHECK_THAT(complaint([](auto& json) { json["tokenizer"]["fingerprint"] = "0"; }),
             ContainsSubstring("not the tokenizer"));
  CHECK_THAT(complaint([](auto& json) { json.erase("val"); }), ContainsSubstring("'val'"));
  CHECK_THAT(complaint([](auto& json) { json["val"]["files"] = 7; }),
             ContainsSubstring("must be a list"));
  CHECK_THAT(complaint([](auto& json) { json["val"]["files"][0] = json["train"]["files"][0]; }),
             ContainsSubstring("'train_000000.bin' is listed twice"));
  CHECK_THAT(complaint([](auto& json) { json["train"]["tokens"] = 6; }),
             ContainsSubstring("have 5 tokens"));
  for (const char* name : {"../train_000000.bin", "/etc/passwd", "..", ".", "", "a/b"}) {
    CHECK_THAT(of_shard("name", name), ContainsSubstring("is not the name of a file"));
  }
  CHECK_THAT(of_shard("tokens", -1), ContainsSubstring("'tokens' is -1"));
  for (const char* what : {"tokens", "bytes"}) {  // a sum that would wrap to 0
    CHECK_THAT(complaint([&](auto& json) {
                 json["train"]["tokens"] = 0;
                 ordered_json file = {{"tokens", 0}, {"bytes", 0}, {"crc32", "00000000"}};
                 file[what] = std::int64_t{1} << 48;
                 ordered_json& files = json["train"]["files"] = ordered_json::array();
                 for (int i = 0; i < 1 << 16; ++i) {
                   file["name"] = std::to_string(i);
                   files.push_back(file);
                 }
               }),
               ContainsSubstring("'train' have more than 281474976710656 tokens or bytes"));
  }
  CHECK_THAT(of_shard("tokens", INT64_MAX), ContainsSubstring("must be from 0"));
  CHECK_THAT(of_shard("tokens", 1e300), ContainsSubstring("'tokens'"));
  CHECK_THAT(of_shard("bytes", 7), ContainsSubstring("tokens in 6 bytes"));
  for (const char* crc : {"", "1234567", "123456789", "0x123456", "1234567g"}) {
    CHECK_THAT(of_shard("crc32", crc), ContainsSubstring("eight hexadecimal digits"));
  }
}
