#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

enum class Colour { red, green };
constexpr std::string_view kColourNames[] = {"red", "green"};
std::span<const std::string_view> names_of(Colour) { return kColourNames; }

// A member of every type.
struct Part {
  bool flag = false;
  int small = 1;
  std::int64_t large = 2;
  std::uint64_t seed = 3;
  double rate = 0.1;
  std::string text = "plain";
  std::vector<std::string> paths = {};
  std::optional<std::int64_t> limit = {};
  Colour colour = Colour::red;
  std::int64_t late = 7;

  template <class Self, class Table>
  static void describe(Self& p, Table& t) {
    t("flag", p.flag, "");
    t("small", p.small, "", {.least = 1, .most = 9});
    t("large", p.large, "");
    t("seed", p.seed, "");
    t("rate", p.rate, "", {.least = 0, .most = 1, .below_most = true});
    t("text", p.text, "");
    t("paths", p.paths, "", {.lasting = Lasting::run});
    t("limit", p.limit, "", {.least = 1});
    t("colour", p.colour, "");
    t("late", p.late, "", {.newer = true});
  }
};

struct Options {
  Part part;
  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t.section("part", "Part", Lasting::model, o.part);
  }
};

const std::string kDefaults =
    R"("flag": false, "small": 1, "large": 2, "seed": 3, "rate": 0.1, "text": "plain", )"
    R"("paths": [], "limit": null, "colour": "red")";

// The error of reading a config with these values, or "".
std::string refusal(const std::string& values) {
  const TempFolder folder;
  const std::filesystem::path path =
      folder.put("config.json", R"({"format": "test", "version": 2, "part": {)" + values + "}}");
  Options options;
  try {
    run::read_options(path, run::read_config(path, "test"), options);
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring(path.string()));
    return error.what();
  }
  return "";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string values = kDefaults;
  values.replace(values.find(from), from.size(), to);
  return values;
}

}  // namespace

TEST_CASE("a described struct is written and read without loss", "[config]") {
  const TempFolder folder;
  const Options written{{.flag = true,
                         .small = 9,
                         .large = -(std::int64_t{1} << 60),
                         .seed = ~std::uint64_t{0},
                         .rate = 0.1 + 0.2,
                         .text = "\xe2\x82\xac \"quoted\"\n",
                         .paths = {"a", "b/c"},
                         .limit = 5,
                         .colour = Colour::green,
                         .late = 8}};
  const std::filesystem::path path = folder / "config.json";
  run::write_config(path, run::config_of(written, "test"));
  Options read;
  run::read_options(path, run::read_config(path, "test"), read);
  CHECK(read.part.flag);
  CHECK(read.part.small == 9);
  CHECK(read.part.large == written.part.large);
  CHECK(read.part.seed == written.part.seed);
  CHECK(read.part.rate == written.part.rate);
  CHECK(read.part.text == written.part.text);
  CHECK(read.part.paths == written.part.paths);
  CHECK(read.part.limit == 5);
  CHECK(read.part.colour == Colour::green);
  CHECK(read.part.late == 8);
}

TEST_CASE("values of a wrong type or outside their rule are refused by name", "[config]") {
  CHECK(refusal(kDefaults) == "");  // `late` is newer than the file
  const auto refused = [](const std::string& from, const std::string& to, const std::string& why) {
    INFO(to);
    CHECK_THAT(refusal(replaced(from, to)), ContainsSubstring(why));
  };
  refused(R"("flag": false)", R"("flag": 0)", "'flag' must be true or false");
  refused(R"("small": 1)", R"("small": 10)", "'small' must be from 1 to 9, not 10");
  refused(R"("small": 1)", R"("small": 1.0)", "'small' must be a whole number");
  refused(R"("small": 1)", R"("small": 4294967297)", "'small' must be a whole number from");
  refused(R"("large": 2)", R"("large": 18446744073709551615)", "'large' must be a whole number");
  refused(R"("seed": 3)", R"("seed": -3)", "'seed' must be a whole number from 0");
  refused(R"("rate": 0.1)", R"("rate": 1)", "'rate' must be at least 0 and below 1, not 1");
  refused(R"("rate": 0.1)", R"("rate": "fast")", "'rate' must be a number");
  refused(R"("text": "plain")", R"("text": null)", "'text' must be a text");
  refused(R"("paths": [])", R"("paths": [1])", "'paths' must be a value or a list of texts");
  refused(R"("limit": null)", R"("limit": 0)", "'limit' must be at least 1, not 0");
  refused(R"("colour": "red")", R"("colour": "blue")",
          "'colour' must be one of red, green, not blue");
  refused(R"("small": 1, )", "", "'small' is missing in 'part'");
  refused(R"("small": 1)", R"("small": 1, "smal": 2)", "a value 'smal' that this program does not");
}

TEST_CASE("a config of another format or version is refused", "[config]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& text, const std::string& why) {
    const auto path = folder.put("config.json", text);
    CHECK_THROWS_WITH(run::read_config(path, "mine"), ContainsSubstring(why));
  };
  refused(R"({"format": "mine", "version": 1})", "Version 1 is of tapegrad 0.1");
  refused(R"({"format": "other", "version": 2})", "this is of a other folder; a mine folder");
  refused(R"({"version": 2})", "'format' is missing");
  refused(R"({"format": "mine", "version": 2, "part": 3})", "'part' must be an object");
  refused("[]", "expected a JSON object");
}

TEST_CASE("a run of conversations that is older than special_in_messages began with true",
          "[config]") {
  const TempFolder folder;
  const auto read = [&](const std::string& values) {
    const auto path =
        folder.put("config.json", R"({"format": "mine", "version": 2, "data": {)" + values + "}}");
    const run::Config config = run::read_config(path, "mine");
    const run::Value* const value = config.at("data", path).find("special_in_messages");
    return value == nullptr ? "none" : run::value_text(*value);
  };
  CHECK(read(R"("chat": ["a.jsonl"], "preferences": [])") == "true");
  CHECK(read(R"("chat": [], "preferences": ["a.jsonl"])") == "true");
  CHECK(read(R"("chat": ["a.jsonl"], "special_in_messages": false)") == "false");
  CHECK(read(R"("chat": [], "corpus": ["a.txt"])") == "none");
  CHECK(read(R"("chat": "a.jsonl")") == "none");
}

TEST_CASE("sections are compared by what they stand for", "[config]") {
  nn::DecoderConfig plain, told, other;
  told.activation = nn::Activation::gelu, told.separate_qkv = false;
  other.activation = nn::Activation::relu;
  const auto change = [](const nn::DecoderConfig& before, const nn::DecoderConfig& now) {
    return run::first_change(run::section_of("model", before), run::section_of("model", now));
  };
  CHECK_FALSE(change(plain, told));
  CHECK_FALSE(change(told, plain));
  REQUIRE(change(plain, other));
  CHECK(change(plain, other)->name == "activation");
  CHECK(change(plain, other)->before == R"("gelu")");
  CHECK(change(plain, other)->now == R"("relu")");
  // What may change does not count, nor what an older section lacks.
  const run::Section before{"part", {{"a", std::int64_t{1}}}};
  run::Section now{"part", {{"a", std::int64_t{2}}, {"b", true}}, {"b"}, {"a"}};
  CHECK_FALSE(run::first_change(before, now));
  now.newer.clear();
  CHECK(run::first_change(before, now)->before == "none");
}
