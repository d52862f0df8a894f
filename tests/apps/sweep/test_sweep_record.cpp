// sweep.json: the results of a sweep, for a later call.

#include <unistd.h>

#include <cmath>

#include "tapegrad/apps/sweep/sweep_record.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::sweep;

TEST_CASE("a sweep takes up its own results, and no other's", "[sweep]") {
  const TempFolder folder;
  const SweepRecord fresh{
      .asked = {{"seed", 1}, {"runs", 2}}, .names = {"n-layer"}, .runs = new_runs({{"4"}, {"6"}})};
  SweepRecord record = begin_in(folder.path(), fresh, false);
  record.runs[0].losses = {2.5, std::nan("")};
  record.runs[0].steps = 7;
  record.runs[1].losses = {1.5};
  save(folder.path(), record);
  folder.put("001/config.json", "{}");  // the folder of 002 has gone
  record = begin_in(folder.path(), fresh, false);
  REQUIRE(record.runs[0].losses.size() == 2);
  CHECK(record.runs[0].losses[0] == 2.5);
  CHECK(std::isnan(record.runs[0].losses[1]));
  CHECK(record.runs[0].steps == 7);
  CHECK(record.runs[1].losses.empty());

  SweepRecord other = fresh;
  other.asked["runs"] = 3;
  CHECK_THROWS_WITH(begin_in(folder.path(), other, false),
                    ContainsSubstring("runs was 2 and is 3"));
  CHECK(std::filesystem::exists(folder / "001/config.json"));
  CHECK(begin_in(folder.path(), other, true).runs[0].losses.empty());
  CHECK(!std::filesystem::exists(folder / "001"));
}

TEST_CASE("folders that belong to no sweep are left alone", "[sweep]") {
  const TempFolder folder;
  folder.put("001/config.json", "{}");
  const SweepRecord fresh{.asked = {{"seed", 1}}, .names = {"n-layer"}, .runs = new_runs({{"4"}})};
  for (const bool overwrite : {false, true}) {
    CHECK_THROWS_WITH(begin_in(folder.path(), fresh, overwrite),
                      ContainsSubstring("belongs to no sweep"));
  }
  folder.put("sweep.json", R"({"format":"tapegrad sweep 1","asked":{},"runs":[{"run":"../x"}]})");
  CHECK_THROWS_WITH(begin_in(folder.path(), fresh, true), ContainsSubstring("no run of a sweep"));
  CHECK(std::filesystem::exists(folder / "001/config.json"));
}

TEST_CASE("the reason of a failed run is its last error", "[sweep]") {
  CHECK(
      error_in("model: …\ntapegrad train: error: first\n\ntapegrad train: error: no room\nTry\n") ==
      "no room");
  CHECK(error_in("step 1\n").empty());
}

TEST_CASE("a sweep goes on where a path of its options is no UTF-8", "[sweep]") {
  const TempFolder folder;
  const SweepRecord fresh{
      .asked = {{"train", {"a\xff.txt"}}}, .names = {"corpus"}, .runs = new_runs({{"b\xff.txt"}})};
  SweepRecord record = begin_in(folder.path(), fresh, false);
  record.runs[0].losses = {1.5};
  save(folder.path(), record);
  folder.put("001/config.json", "{}");
  CHECK(begin_in(folder.path(), fresh, false).runs[0].losses.size() == 1);
}

TEST_CASE("results that are not of this sweep are refused", "[sweep]") {
  const TempFolder folder;
  const SweepRecord fresh{.asked = {{"seed", 1}}, .names = {"n-layer"}, .runs = new_runs({{"4"}})};
  begin_in(folder.path(), fresh, false);
  folder.put("001/config.json", "{}");
  const std::string good = TempFolder::get(folder / "sweep.json");
  const auto check_refused = [&](const std::string& from, const std::string& to,
                                 const std::string& why) {
    INFO(to);
    std::string bad = good;
    REQUIRE(bad.find(from) != bad.npos);
    bad.replace(bad.find(from), from.size(), to);
    folder.put("sweep.json", bad);
    CHECK_THROWS_WITH(begin_in(folder.path(), fresh, false), ContainsSubstring(why));
    CHECK(TempFolder::get(folder / "sweep.json") == bad);
  };
  check_refused("tapegrad sweep 1", "tapegrad sweep 2", "knows only");
  check_refused("\"n-layer\": \"4\"", "\"n-layer\": \"5\"", "other values");
  check_refused("\"n-layer\": \"4\"", "\"n-layer\": \"4\", \"n-head\": \"1\"", "other values");
  check_refused("\"seconds\": 0.0", "\"seconds\": -1", "0 or more");
  check_refused("\"seconds\": 0.0", "\"seconds\": 1e300", "0 or more");
  check_refused("\"steps\": 0", "\"steps\": -1", "0 or more");
}

TEST_CASE("--overwrite removes nothing that a program trains in or the new runs read", "[sweep]") {
  const TempFolder folder;
  const SweepRecord fresh{
      .asked = {{"seed", 1}}, .names = {"n-layer"}, .runs = new_runs({{"4"}, {"6"}})};
  begin_in(folder.path(), fresh, false);
  folder.put("001/config.json", "{}");
  folder.put("002/config.json", "{}");
  const int lock = run::lock_folder(folder / "002", "testing");
  REQUIRE(lock >= 0);
  CHECK_THROWS_WITH(begin_in(folder.path(), fresh, true), ContainsSubstring("trains there"));
  CHECK(std::filesystem::exists(folder / "001/config.json"));
  ::close(lock);
  CHECK_THROWS_WITH(begin_in(folder.path(), fresh, true, {folder / "002/x.txt"}),
                    ContainsSubstring("which --overwrite would remove"));
  CHECK(std::filesystem::exists(folder / "001/config.json"));
  begin_in(folder.path(), fresh, true, {folder / "sweep.txt"});
  CHECK(!std::filesystem::exists(folder / "001"));
}
