// A page opens whatever stands beside it: a changed file is refused in words, or is a model that
// works. tests/browser/hostile.test.mjs tries the same in WebAssembly.

#include <cstdint>
#include <cstring>
#include <iterator>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/web/web_engine.h"
#include "tapegrad/base/random.h"
#include "tapegrad/tests/apps/web/program_with_page.h"
#include "tapegrad/tests/faults/verdict.h"

using namespace tapegrad;

namespace {

constexpr int kTries = 1000;        // with each tokenizer
constexpr std::size_t kLength = 8;  // bytes of the header's length
constexpr int kDepth = 4;

struct PageFile {
  std::string header, data;
  static PageFile of(const std::string& bytes) {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), kLength);
    return {bytes.substr(kLength, size), bytes.substr(kLength + size)};
  }
  std::string bytes() const {
    const std::uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), kLength) + header + data;
  }
};

std::size_t below(Rng& rng, std::size_t n) {
  return static_cast<std::size_t>(rng.randint(static_cast<std::int64_t>(n)));
}

// Changes some bytes, or takes some away, or cuts the end off.
std::string with_wrong_bytes(std::string bytes, Rng& rng) {
  const std::size_t at = below(rng, bytes.size());
  switch (rng.randint(4)) {
    case 0:
      bytes[at] = static_cast<char>(rng.randint(256));
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.randint(8)));
      break;
    case 2:
      bytes.erase(at, 1 + below(rng, 16));
      break;
    default:
      bytes.resize(at);
      break;
  }
  return bytes;
}

// Puts another value in the place of one of the description's.
std::string with_wrong_value(const std::string& header, Rng& rng) {
  static const std::vector<Json> values = {0,
                                           -1,
                                           1,
                                           3,
                                           1'000'000,
                                           std::int64_t{1} << 31,
                                           std::int64_t{1} << 62,
                                           UINT64_MAX,
                                           1e30,
                                           false,
                                           "",
                                           "char",
                                           "bpe",
                                           "\u00e9",
                                           nullptr,
                                           1e-9,
                                           true,
                                           Json::array(),
                                           Json::object()};
  auto all = parse_json<Json>(header, kDepth);
  Json& text = all["__metadata__"][std::string(run::kWebDescription)];
  auto description = parse_json<Json>(text.get<std::string>(), kDepth);
  const Json places = description.flatten();
  auto place = places.begin();
  std::advance(place, rng.randint(std::ssize(places)));
  description[Json::json_pointer(place.key())] = values[below(rng, values.size())];
  text = json_text(description);
  return json_text(all);
}

std::string changed(const PageFile& page, int way, Rng& rng) {
  if (way == 0) return with_wrong_bytes(page.bytes(), rng);
  PageFile other = page;
  other.header = way == 1 ? with_wrong_bytes(page.header, rng) : with_wrong_value(page.header, rng);
  return other.bytes();
}

// The words of an error, or "" if there is none. Words that say nothing are a failure.
std::string error_of(const Json& request) {
  const Json answer = Json::parse(web::answer(json_text(request)));  // a token may be a NUL
  if (!answer.contains("error")) return "";
  const std::string error = cli::printable(answer["error"].get<std::string>());
  CHECK(faults::fault_of_message(error) == "");
  return error + ".";  // never ""
}

// Does all that a page does but training.
void use() {
  for (const std::string prompt : {"", "the"}) {
    const std::string error = error_of({{"do", "begin"},
                                        {"prompt", prompt},
                                        {"max_new_tokens", 2},
                                        {"greedy", prompt.empty()},
                                        {"temperature", 1.0},
                                        {"top_k", 0},
                                        {"seed", 1U}});
    if (error.empty() && error_of({{"do", "next"}}).empty()) error_of({{"do", "next"}});
  }
  error_of({{"do", "look"}, {"text", "the"}});
}

}  // namespace

TEST_CASE("a changed model of a page is refused in words, or works", "[web]") {
  const ProgramWithPage program;
  const TempFolder folder(memory_folder());
  Rng rng(7);
  for (const char* tokenizer : {"char", "bpe:280"}) {
    const TinyRun run(2, {"--tokenizer", tokenizer});
    const std::filesystem::path out = program.folder / tokenizer;
    check_ended_well(program.exported(run.run, out));
    const PageFile page = PageFile::of(TempFolder::get(out / "model.safetensors"));
    int opened = 0, refused = 0;
    for (int i = 0; i < kTries; ++i) {
      INFO(tokenizer << " " << i);
      const auto file = folder.put("model", changed(page, i % 3, rng));
      const bool opens = error_of({{"open", file.string()}}).empty();
      ++(opens ? opened : refused);
      if (opens) use();
    }
    CHECK(opened > 0);
    CHECK(refused > 0);
  }
}

TEST_CASE("a page's description that does not fit its weights is refused by name", "[web]") {
  const ProgramWithPage program;
  const TinyRun run(2, {"--tokenizer", "bpe:280"});
  const std::filesystem::path out = program.folder / "page";
  check_ended_well(program.exported(run.run, out));
  const PageFile page = PageFile::of(TempFolder::get(out / "model.safetensors"));
  const TempFolder folder;
  const auto refused = [&](const std::string& place, const Json& value, const std::string& words) {
    auto all = parse_json<Json>(page.header, kDepth);
    Json& text = all["__metadata__"][std::string(run::kWebDescription)];
    auto description = parse_json<Json>(text.get<std::string>(), kDepth);
    description[Json::json_pointer(place)] = value;
    text = json_text(description);
    PageFile other{json_text(all), page.data};
    INFO(place);
    CHECK_THAT(error_of({{"open", folder.put("model", other.bytes()).string()}}),
               ContainsSubstring(words));
  };
  refused("/name", 3, "'name' must be a text");
  refused("/prompt", Json::array(), "'prompt' has no token");
  refused("/prompt", Json::array({280}), "'prompt' has a token 280, which is not one of the 280");
  refused("/ends", Json::array({-1}), "'ends' has a token -1");
  refused("/ends", Json::array({std::int64_t{1} << 32}), "'ends' has a token 4294967296");
  refused("/tokenizer/kind", "gpt2", "no tokenizer of the kind 'gpt2'");
  refused("/tokenizer/merges", 3, "the merges must be a list");
  refused("/tokenizer/merges/0", Json::array({1}), "merge 0 is not a pair of tokens");
  refused("/tokenizer/merges/0/0", std::int64_t{1} << 32, "a token 4294967296, which is out of");
  refused("/tokenizer/merges/0/0", -1, "a token -1, which is out of range");
  refused("/tokenizer/merges/23", Json::array({1, 2}),
          "the tokenizer has 281 tokens, and the model rows for 280");
}
