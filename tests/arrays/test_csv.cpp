#include "tapegrad/arrays/csv.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using arrays::Csv;
using arrays::CsvOptions;
using arrays::load_csv;

TEST_CASE("a CSV of numbers is a matrix", "[csv]") {
  const TempFolder folder;
  const auto read = [&](const std::string& text, const CsvOptions& options = {}) {
    const Csv csv = load_csv(folder.put("x.csv", text), options);
    CHECK(csv.values.dtype() == options.dtype);
    return std::pair(csv.values.shape(), list(csv.values));
  };
  const auto expected = std::pair(Shape{2, 3}, std::vector<double>{1, -2.5, 3, 4, 5, 60});
  CHECK(read("1,-2.5,3\n4,5,6e1\n") == expected);
  CHECK(read("1,-2.5,3\n4,5,6e1") == expected);
  CHECK(read("\xEF\xBB\xBF 1 ,-2.5,\t3\r\n4,5,6e1\r\n\r\n") == expected);
  CHECK(read("1;-2.5;3\n4;5;60\n", {.separator = ';', .dtype = DType::f64}) == expected);
  CHECK(read("1\t-2.5\t3\n4\t5\t60\n", {.separator = '\t'}) == expected);
  CHECK(read("7\n8\n", {.dtype = DType::i32}) == std::pair(Shape{2, 1}, std::vector<double>{7, 8}));
  CHECK(read("255\n", {.dtype = DType::u8}) == std::pair(Shape{1, 1}, std::vector<double>{255}));
}

TEST_CASE("the columns of a CSV are found by the names in its header", "[csv]") {
  const TempFolder folder;
  const auto path = folder.put("x.csv", "\"x\", y ,label\n1,2,0\n3,4,1\n");
  const Csv csv = load_csv(path, {.header = true});
  CHECK(csv.columns == std::vector<std::string>{"x", "y", "label"});
  CHECK(list(csv.column("label")) == std::vector<double>{0, 1});
  CHECK(list(csv.column("x")) == std::vector<double>{1, 3});
  CHECK(csv.column("y").shape() == Shape{2});
  CHECK_THROWS_WITH(csv.column("z"), "[csv] there is no column 'z'; there are x, y, label");
}

TEST_CASE("a CSV that is no matrix of numbers is an error with path and line", "[csv]") {
  const TempFolder folder;
  const auto refused = [&](const std::string& text, const std::string& message,
                           const CsvOptions& options = {}) {
    CHECK_THROWS_WITH(load_csv(folder.put("x.csv", text), options),
                      ContainsSubstring("x.csv: " + message));
  };
  refused("", "it has no numbers");
  refused("\n\r\n", "it has no numbers");
  refused("a,b\n", "it has no numbers", {.header = true});
  refused("a,b\n1,2\n",
          "line 1, field 1 is no finite number: 'a'; a first line with the names of columns needs "
          "CsvOptions::header");
  refused("1,2\n3,4,5\n", "line 2 has 3 fields, and the first line 2");
  refused("1,2\n3\n", "line 2 has 1 fields, and the first line 2");
  refused("a,b\n1\n", "line 2 has 1 fields", {.header = true});
  refused("1,2\n3,\n", "line 2, field 2 is empty");
  refused("1\t2\t\n", "line 1, field 3 is empty", {.separator = '\t'});
  refused("1\n\n2\n", "line 2, field 1 is empty");
  for (const char* field : {"nan", "inf", "1.5x", "\"1\"", "0x10", "1,5", "1e999", "--1", "1 2"}) {
    refused(std::string("1\n") + field + "\n", "line 2", {.separator = ';'});
  }
  refused("1\n1e39\n", "line 2, field 1 is 1e39, which f32 cannot hold");
  refused("+1\n", "line 1, field 1 is no finite number: '+1'");
  refused("1.5\n", "line 1, field 1 is 1.5, which i32 cannot hold", {.dtype = DType::i32});
  refused("2147483648\n", "line 1, field 1 is 2147483648, which i32", {.dtype = DType::i32});
  refused("-1\n", "line 1, field 1 is -1, which u8 cannot hold", {.dtype = DType::u8});
  refused(std::string("\0\xff", 2), "line 1, field 1 is no finite number: '?");
  CHECK_THROWS_WITH(load_csv(folder.put("x.csv", "1"), {.separator = '\n'}),
                    ContainsSubstring("the separator cannot be character 10"));
  CHECK_THROWS_WITH(load_csv(folder / "missing.csv"), ContainsSubstring("missing.csv"));
}
