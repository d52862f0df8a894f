#include "tapegrad/autograd/formats/pickle.h"
#include "tapegrad/autograd/formats/pickle_writer.h"
#include "tapegrad/base/error.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using Kind = PickleValue::Kind;

namespace {

// A pickle of protocol 2 with these instructions; a string literal may have NULs.
template <std::size_t N>
std::string program(const char (&instructions)[N]) {
  return "\x80\x02" + std::string(instructions, N - 1);
}

std::string complaint(const std::string& bytes) {
  try {
    const Pickle pickle(bytes, "file.pkl");
    return "";
  } catch (const Error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("file.pkl: "));
    return error.what();
  }
}

}  // namespace

TEST_CASE("values come back as they were pickled", "[pickle]") {
  const std::vector<std::int64_t> integers = {0, -1, 255, 65536, INT32_MIN, INT64_MAX, INT64_MIN};
  PickleWriter w;
  w.begin_dict();
  w.text("integers");
  w.begin_list();
  for (const std::int64_t value : integers) w.integer(value);
  w.end_list();
  w.text("ü");
  w.number(-1.5e-300);
  w.integer(7);
  w.begin_tuple();
  w.none();
  w.boolean(true);
  w.boolean(false);
  w.end_tuple();
  w.text("more");
  w.begin_ordered_dict();
  w.end_dict();
  w.end_dict();
  const Pickle pickle(w.take(), "file");
  const PickleValue& root = pickle.root();
  const auto& list = root.find("integers")->as(Kind::list, "it").items;
  REQUIRE(list.size() == integers.size());
  for (std::size_t i = 0; i < list.size(); ++i) CHECK(list[i]->as_integer("it") == integers[i]);
  CHECK(root.find("ü")->as_number("it") == -1.5e-300);
  CHECK(root.find("more")->kind == Kind::dict);
  CHECK(root.find("7") == nullptr);
  const auto& tuple = root.items[5]->as(Kind::tuple, "it").items;
  CHECK(tuple[0]->kind == Kind::none);
  CHECK(tuple[1]->as_boolean("it"));
  CHECK(!tuple[2]->as_boolean("it"));
  CHECK_THROWS_WITH(root.as_integer("the root"), "the root must be an int, not a dict");
}

TEST_CASE("ints of a few bytes have their sign", "[pickle]") {
  const auto value = [](const std::string& bytes) {
    return Pickle(bytes, "file").root().as_integer("it");
  };
  CHECK(value(program("\x8a\x00.")) == 0);
  CHECK(value(program("\x8a\x01\xff.")) == -1);
  CHECK(value(program("\x8a\x02\xff\x00.")) == 255);
  CHECK(value(program("\x8a\x05\x00\x00\x00\x00\x80.")) == -(std::int64_t{1} << 39));
}

TEST_CASE("the last value of a name counts, as in Python", "[pickle]") {
  const Pickle pickle(program("}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."), "file");
  CHECK(pickle.root().find("a")->integer == 2);
}

TEST_CASE("what would run code is refused by name", "[pickle]") {
  CHECK_THAT(complaint(program("cos\nsystem\n(X\2\0\0\0lstR.")), ContainsSubstring("'os.system'"));
  CHECK_THAT(complaint(program("cbuiltins\neval\n.")), ContainsSubstring("'builtins.eval'"));
  CHECK_THAT(complaint(program("\x8c\5posix\x8c\6system\x93.")),
             ContainsSubstring("'posix.system'"));
  CHECK_THAT(complaint(program("ctorch\n_rebuild_tensor_v2\n.")), ContainsSubstring("no code"));
  CHECK_THAT(complaint(program("(ios\nsystem\n.")), ContainsSubstring("0x69"));  // INST
  CHECK_THAT(complaint(program("K\1)R.")), ContainsSubstring("calls an int"));
  CHECK_THAT(complaint(program("ccollections\nOrderedDict\n(]tR.")),
             ContainsSubstring("made of something"));
  CHECK_THAT(complaint(program("ccollections\nOrderedDict\n.")), ContainsSubstring("a name alone"));
  CHECK_THAT(complaint(program("ctorch\nFloatStorage\n)R.")), ContainsSubstring("no tensor"));
}

TEST_CASE("broken pickles are refused with their place", "[pickle]") {
  const std::pair<std::string, std::string> cases[] = {
      {"", "ends within"},
      {"\x80\x01.", "protocol 1"},
      {"\x80\x06.", "protocol 6"},
      {"(dp0\n.", "not a pickle of protocol"},
      {program("N"), "ends within"},
      {program("."), "does not end with one value"},
      {program("NN."), "does not end with one value"},
      {program("(N."), "does not end with one value"},
      {program("N.N"), "does not end with one value"},
      {program("X\xff\xff\xff\xff"), "ends within"},
      {program("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), "ends within"},
      {program("\x95\xff\xff\xff\xff\xff\xff\xff\xff"), "frame"},
      {program("u."), "mark"},
      {program("N(K\1Nu."), "needs a dict"},
      {program("}(Nu."), "has no value"},
      {program("}NNs."), "key"},
      {program("N(a."), "not there"},
      {program("K\1K\2a."), "needs a list"},
      {program("h\0."), "is not there"},
      {program("Nr\xff\xff\xff\xff."), "kept as number"},
      {program("q\0."), "not there"},
      {program("\x8a\x09\0\0\0\0\0\0\0\0\1."), "more than 64 bits"},
      {program("NQ."), "no storage"},
      {program("Nb."), "not there"},
      {program("K\1Nb."), "needs a dict"},
      {program("cos"), "within a name"},
  };
  for (const auto& [bytes, expected] : cases) {
    INFO(expected);
    CHECK_THAT(complaint(bytes), ContainsSubstring(expected));
  }
}

TEST_CASE("no pickle takes much more memory than it has bytes", "[pickle]") {
  const auto repeated = [](const std::string& part, std::size_t times) {
    std::string bytes = program("");
    while (times-- > 0) bytes += part;
    return bytes + ".";
  };
  CHECK_THAT(complaint(repeated("]", 3'000'000)), ContainsSubstring("2000000 values"));
  CHECK_THAT(complaint(repeated("N", 9'000'000)), ContainsSubstring("are the most"));
  CHECK_THAT(complaint(repeated("(", 1'000'000)), ContainsSubstring("one value"));
  // Depth takes no stack.
  CHECK(complaint(repeated("]", 1) + "") == "");
  std::string deep = program("");
  for (int i = 0; i < 500'000; ++i) deep += ']';
  for (int i = 0; i < 499'999; ++i) deep += 'a';
  CHECK(complaint(deep + ".") == "");
  // A list inside of itself, and one that has itself a thousand times.
  CHECK(complaint(program("]q\0h\0a.")) == "");
  CHECK(complaint(program("]q\0(") + repeated("h" + std::string(1, '\0'), 1000).substr(2, 2000) +
                  "e.") == "");
}
