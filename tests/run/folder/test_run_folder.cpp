#include <fstream>

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/run/folder/tiny_checkpoint.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using Model = testing::CheckpointModel;
using run::RunFolder;
namespace fs = std::filesystem;

namespace {

run::FolderOptions at(const fs::path& path) { return {.out_dir = path.string()}; }
run::FolderOptions resuming(const fs::path& path) {
  return {.out_dir = path.string(), .init_from = run::kResume};
}

// A folder with a checkpoint after `iteration` steps.
void make_run(const fs::path& path, std::int64_t iteration) {
  RunFolder folder = RunFolder::open(at(path), "test");
  Model model(folder);
  model.progress.iteration = iteration;
  folder.begin({.format = "test", .sections = {}});
  for (std::int64_t i = 0; i < iteration + 2; ++i) folder.append_metrics({{"iteration", i}});
  folder.save(model.state());
}

std::size_t lines_in(const fs::path& path) {
  std::ifstream file(path);
  std::size_t n = 0;
  for (std::string line; std::getline(file, line);) ++n;
  return n;
}

}  // namespace

TEST_CASE("a folder in which nothing was written is taken away again", "[run_folder]") {
  const TempFolder folder;
  { const RunFolder run = RunFolder::open(at(folder / "new"), "test"); }
  CHECK_FALSE(fs::exists(folder / "new"));
  fs::create_directory(folder / "old");
  { const RunFolder run = RunFolder::open(at(folder / "old"), "test"); }
  CHECK(fs::exists(folder / "old"));
}

TEST_CASE("one program at a time has a folder", "[run_folder]") {
  const TempFolder folder;
  const RunFolder first = RunFolder::open(at(folder / "run"), "test");
  CHECK_THROWS_WITH(RunFolder::open(at(folder / "run"), "test"),
                    ContainsSubstring("another program is training in"));
}

TEST_CASE("a run is replaced only when it is asked for, and when the new one begins",
          "[run_folder]") {
  const TempFolder folder;
  const fs::path path = folder / "run";
  make_run(path, 4);
  CHECK_THROWS_WITH(RunFolder::open(at(path), "test"), ContainsSubstring("holds a run already"));
  const run::FolderOptions replacing{.out_dir = path.string(), .overwrite = true};
  { const RunFolder given_up = RunFolder::open(replacing, "test"); }
  CHECK(run::checkpoint_iteration(path) == 4);
  RunFolder begun = RunFolder::open(replacing, "test");
  begun.begin({.format = "test", .sections = {}});
  CHECK_FALSE(fs::exists(path / run::kTrainerFile));
}

TEST_CASE("a resumed run has what was saved, and no metrics of steps after that", "[run_folder]") {
  const TempFolder folder;
  const fs::path path = folder / "run";
  make_run(path, 4);
  CHECK(lines_in(path / run::kMetricsFile) == 6);
  const RunFolder run = RunFolder::open(resuming(path), "test");
  CHECK(run.config("test").format == "test");
  Model model(run);
  model.draws.rng.next32();
  run.restore(model.state());
  CHECK(model.progress.iteration == 4);
  CHECK(model.draws.state() == testing::Draws().state());
  CHECK(lines_in(path / run::kMetricsFile) == 4);
}

TEST_CASE("a folder without a checkpoint, or with a broken one, is not resumed", "[run_folder]") {
  const TempFolder folder;
  CHECK_THROWS_WITH(RunFolder::open(resuming(folder / "none"), "test"),
                    ContainsSubstring("is not a folder"));
  CHECK_THROWS_WITH(RunFolder::open(resuming(folder.path()), "test"),
                    ContainsSubstring("has no checkpoint to resume"));
  const fs::path early = folder / "early", late = folder / "late";
  make_run(early, 2);
  make_run(late, 3);
  fs::copy(late / run::kModelFile, early, fs::copy_options::overwrite_existing);
  const RunFolder run = RunFolder::open(resuming(early), "test");
  CHECK_THROWS_WITH(Model(run), ContainsSubstring("the files are not of one checkpoint"));
}

TEST_CASE("a checkpoint of a folder that was moved or removed is saved, and an error says where",
          "[run_folder]") {
  const TempFolder folder;
  const bool moved = GENERATE(true, false);
  const fs::path path = folder / "run", place = folder / (moved ? "moved" : "run-rescued-1");
  std::optional<RunFolder> run(RunFolder::open(at(path), "test"));
  Model model(*run);
  model.progress.iteration = 3;
  run->begin({.format = "test", .sections = {}},
             [](const fs::path& into) { std::ofstream(into / "tokenizer.json") << "{}"; });
  if (moved) {
    fs::rename(path, folder / "moved");
  } else {
    fs::remove_all(path);
  }
  run->append_metrics({{"iteration", 2}});  // which is lost, and the training is not
  CHECK_THROWS_WITH(run->save(model.state()),
                    ContainsSubstring(moved ? "was moved while" : "was removed while") &&
                        ContainsSubstring("The checkpoint of step 3 is in " + place.string()));
  run.reset();  // which ends its lock
  CHECK_FALSE(fs::exists(path));
  CHECK(fs::exists(place / "tokenizer.json"));
  Model resumed(RunFolder::open(resuming(place), "test"));
  CHECK(resumed.line.weight.values<float>()[0] == model.line.weight.values<float>()[0]);
}
