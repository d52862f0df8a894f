// The link from a run's report to the page that `export` has made of its model.

#include <chrono>

#include "tapegrad/apps/watch/report/model_page.h"
#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/tests/apps/web/program_with_page.h"

using namespace tapegrad;

namespace {

namespace fs = std::filesystem;

const ProgramWithPage& program() {
  static const ProgramWithPage made(std::string(watch::kModelPageMark) +
                                    "<script>/* model */</script>");
  return made;
}

std::string link(const std::string& url) {
  return "<p><a href=\"" + url + "\">The model in a page</a></p>";
}

}  // namespace

TEST_CASE("an export of a page beside a run of its name puts a link into the report", "[web]") {
  const TinyRun run(4);
  const std::string before = run.file("report.html");
  const auto [out, url] =
      GENERATE(std::pair("run.html", "../run.html"), std::pair("run.web", "../run.web/index.html"));
  const Result r = program().exported(run.run, run.folder / out);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("linked in " + (run.run / "report.html").string()));
  std::string after = run.file("report.html");
  const std::size_t at = after.find(link(url) + "\n");
  REQUIRE(at != after.npos);
  CHECK(after.erase(at, link(url).size() + 1) == before);  // the rest is as it was
  // A report that may be mailed has none.
  check_ended_well(run_program("watch", {run.run, "--html", run.folder / "all.html"}));
  CHECK_THAT(TempFolder::get(run.folder / "all.html"), !ContainsSubstring("href="));
}

TEST_CASE("a page that is not the run's by its name, and a file that is none, are not linked",
          "[web]") {
  const TinyRun run(4);
  const std::string before = run.file("report.html");
  const auto not_linked = [&] {
    CHECK_FALSE(watch::link_model_page(run.run));
    CHECK(run.file("report.html") == before);
  };
  const Result r = program().exported(run.run, run.folder / "other.html");
  check_ended_well(r);
  CHECK_THAT(r.out, !ContainsSubstring("linked"));
  not_linked();
  check_ended_well(run_program("watch", {run.run, "--html", run.folder / "run.html"}));
  not_linked();
  fs::remove(run.folder / "run.html");
  fs::create_directory(run.folder / "run.html");
  not_linked();
}

TEST_CASE("a report is linked only where there is one, and nobody is asked to make it", "[web]") {
  const TinyRun run(4);
  fs::remove(run.run / "report.html");
  check_ended_well(program().exported(run.run, run.folder / "run.html"));
  CHECK_FALSE(fs::exists(run.run / "report.html"));
}

TEST_CASE("an export elsewhere says nothing of a page that is linked", "[web]") {
  const TinyRun run(4);
  check_ended_well(program().exported(run.run, run.folder / "run.html"));
  for (const char* out : {"other.html", "run.web"}) {  // run.html comes before run.web
    const Result r = program().exported(run.run, run.folder / out);
    check_ended_well(r);
    CHECK_THAT(r.out, !ContainsSubstring("linked"));
  }
}

TEST_CASE("a report says that a linked page has weights of earlier steps", "[web]") {
  const TinyRun run(4);
  check_ended_well(program().exported(run.run, run.folder / "run.html"));
  const auto of_weights = fs::last_write_time(run.run / "model.safetensors");
  fs::last_write_time(run.folder / "run.html", of_weights - std::chrono::hours(1));
  watch::write_report(run.run);  // as training does at its end
  CHECK_THAT(run.file("report.html"),
             ContainsSubstring("The model in a page</a>, with weights of earlier steps</p>"));
  fs::last_write_time(run.folder / "run.html", of_weights + std::chrono::hours(1));
  CHECK(watch::link_model_page(run.run));
  CHECK_THAT(run.file("report.html"), ContainsSubstring(link("../run.html")));
}

TEST_CASE("a link to a page is a URL whatever the run's name is", "[web]") {
  const TempFolder folder;
  const std::string name = "a<b>\"c\" #1?%\u00e9";
  fs::create_directory(folder / name);
  CHECK_FALSE(watch::model_page_of(folder / name));
  folder.put(name + ".html", watch::kModelPageMark);
  for (const std::string& run : {name, name + "/", name + "/.", name + "/../" + name}) {
    const auto page = watch::model_page_of(folder / run);
    REQUIRE(page);
    CHECK(page->link == "../a%3Cb%3E%22c%22%20%231%3F%25%C3%A9.html");
  }
}

TEST_CASE("the page of exports has the mark by which a report knows it", "[web]") {
  const std::string page = TempFolder::get(fs::path(places::kSources) / "apps/web/page/index.html");
  CHECK(page.find(watch::kModelPageMark) < 1000 - watch::kModelPageMark.size());
}
