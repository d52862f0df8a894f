// report.html of a run, and watch --html.

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/tests/apps/tiny_runs.h"
#include "tapegrad/tests/places.h"

namespace fs = std::filesystem;

namespace {

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

void check_stands_alone(const std::string& html) {
  for (const char* word : {"<script", "src=", "href=", "http:", "https:", "url(", "@import"}) {
    INFO(word);
    CHECK(count(html, word) == 0);
  }
}

}  // namespace

TEST_CASE("a run ends with a report that stands alone", "[report]") {
  const TinyRun run(10, {"--sample-interval", "5", "--layer-stats", "2"});
  const std::string html = run.file("report.html");
  check_stands_alone(html);
  CHECK(count(html, "<figure>") == 6);
  CHECK(count(html, "<svg viewBox=\"0 0 720") == 1);
  CHECK(count(html, "<svg viewBox=\"0 0 460") == 3);
  CHECK_THAT(html, ContainsSubstring("<span>training loss there</span>"));
  // The maps have a row for each layer, and a column for each time that they were looked at.
  CHECK(count(html, "<div class=\"map\" style=\"--rows:") == 2);
  CHECK(count(html, "<svg viewBox=\"0 0 5 ") == 2);
  for (const char* layer : {"wte", "h.0.attn.c_attn", "h.0.mlp.c_proj", "ln_f"}) {
    INFO(layer);
    CHECK(count(html, "<li>" + std::string(layer) + "</li>") == 2);
  }
  CHECK_THAT(html, ContainsSubstring("<span>lowest validation loss, at step "));
  CHECK_THAT(html, ContainsSubstring("10 of 10"));
  CHECK_THAT(html, ContainsSubstring("<h3>step 5</h3>") && ContainsSubstring("<h3>step 10</h3>"));
  CHECK_THAT(html, ContainsSubstring("<th scope=\"row\">n_embd</th><td>16</td>"));
  CHECK_THAT(html, ContainsSubstring("model.safetensors</th>"));
  CHECK(count(html, "still in training") == 0);
  const std::size_t machine = html.find("<h2>Machine and command line</h2>\n<pre>train-gpt ");
  REQUIRE(machine != html.npos);
  for (const char* name : {"first step", "time", "folder", "processor", "cores", "threads",
                           "processes", "version", "products"}) {
    INFO(name);
    CHECK(html.find("<th scope=\"row\">" + std::string(name) + "</th>", machine) != html.npos);
  }
}

TEST_CASE("a report shows hostile texts as texts", "[report]") {
  const TinyRun run(4);
  std::ofstream(run.run / "metrics.jsonl", std::ios::app)
      << "{\"iteration\":3,\"sample\":\"</pre><script>alert(1)</script>\"}\n"
         "no JSON\n{\"iteration\":3,\"loss\":1e999}\n";
  const std::string file = run.folder / "all.html";
  const Result r = run_program("watch", {run.run, "--html", file});
  check_ended_well(r);
  const std::string html = TempFolder::get(file);
  check_stands_alone(html);
  CHECK_THAT(html, ContainsSubstring("&lt;/pre&gt;&lt;script&gt;alert(1)"));
}

TEST_CASE("a report shows hostile names and option values as texts", "[report]") {
  const CorpusAndRun files("<q>corpus&.txt", tiny_text());
  const auto run = files.folder / "<u>run";
  check_ended_well(train(tiny_run(files.corpus, run, 2)));
  std::ofstream(run / "<i>file") << "x";
  std::ofstream(run / "sessions.jsonl", std::ios::app)
      << "{\"first_step\":2,\"<s>name\":\"<s>value\",\"command\":\"<s>command\"}\n";
  const std::string file = files.folder / "all.html";
  check_ended_well(run_program("watch", {run, "--html", file}));
  const std::string html = TempFolder::get(file);
  check_stands_alone(html);
  for (const char* tag : {"<q>", "<u>", "<i>", "<s>"}) {
    INFO(tag);
    CHECK(count(html, tag) == 0);
  }
  for (const char* text :
       {"<title>&lt;u&gt;run</title>", "&lt;q&gt;corpus&amp;.txt", "&lt;i&gt;file", "&lt;s&gt;name",
        "&lt;s&gt;value", "&lt;s&gt;command"}) {
    CHECK_THAT(html, ContainsSubstring(text));
  }
}

TEST_CASE("watch --html shows several runs and where they differ", "[report]") {
  const TinyRun a(4), b(6, {"--learning-rate", "0.02"});
  const std::string file = a.folder / "two.html";
  const Result r = run_program("watch", {a.run, b.run, "--html", file});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("two.html shows 2 runs"));
  const std::string html = TempFolder::get(file);
  const std::size_t table = html.find("<h2>Runs"), curves = html.find("<h2>Curves");
  REQUIRE(table < curves);
  const std::string part = html.substr(table, curves - table);
  CHECK_THAT(part, ContainsSubstring("<th scope=\"col\">learning_rate</th>") &&
                       ContainsSubstring("<td>0.01</td>") && ContainsSubstring("<td>0.02</td>"));
  CHECK(count(part, "standard deviation") == 0);
  CHECK(count(part, "n_embd") == 0);
  CHECK_THAT(html, ContainsSubstring("run: validation loss"));
}

TEST_CASE("many runs of a report have looks of their own, and a row for an experiment",
          "[report]") {
  const TempFolder folder;
  constexpr int runs = 30;
  for (int i = 0; i < runs; ++i) {
    const std::string run = "runs/" + std::to_string(i);
    folder.put(run + "/config.json", "{\"random\":{\"seed\":" + std::to_string(i) + "}}");
    folder.put(run + "/metrics.jsonl", "{\"iteration\":5,\"train_loss\":1,\"val_loss\":2}\n");
  }
  check_ended_well(run_program("watch", {folder / "runs", "--html", folder / "all.html"}));
  const std::string html = TempFolder::get(folder / "all.html");
  for (int i = 0; i < runs; ++i) {
    const std::string look =
        "curve-" + std::to_string(i % 12) + " dash-" + std::to_string(i / 12) + "\"";
    INFO(look);
    CHECK(count(html, look) == 2);  // in the table and in the chart
  }
  CHECK(count(html, ".curve-") == 12);
  CHECK_THAT(html, ContainsSubstring("<td>30</td><td>2.0000 ± 0.0000</td>"));
  CHECK_THAT(html, ContainsSubstring("<details><summary>Options</summary>"));
}

TEST_CASE("watch --html says what is wrong", "[report]") {
  const TempFolder folder;
  check_error_of("watch", run_program("watch", {folder.path(), "--html", folder / "x.html"}), 1,
                 "there is no run in ");
  const TinyRun run(2);
  check_error_of("watch", run_program("watch", {run.run, "--html", run.folder / "no" / "x.html"}),
                 1, "x.html");
}

// Few batches estimate the loss here, so that it moves a little; another model moves it far.
// scripts/quickstart_picture.py draws the picture anew.
TEST_CASE("the README's picture has the options and the first loss of the quickstart", "[report]") {
  const fs::path root = tapegrad::places::kSources;
  const std::string svg = TempFolder::get(root / "docs/quickstart.svg");
  const auto between = [&](const std::string& open, const std::string& close) {
    const std::size_t found = svg.find(open), begin = found + open.size();
    REQUIRE(found != svg.npos);
    return svg.substr(begin, svg.find(close, begin) - begin);
  };
  const std::string title = between("<title>", "</title>");
  CHECK_THAT(TempFolder::get(root / "README.md"),
             ContainsSubstring("![" + title + "](docs/quickstart.svg)"));
  const std::string values = between("<polyline id=\"validation\" data-values=\"", "\"");
  const double first = std::stod(values.substr(values.find(',') + 1));
  const double last = std::stod(values.substr(values.rfind(',') + 1));
  CHECK(title == fmt::format("Losses of a run of 1900 steps: from {:.2f} to {:.2f}", first, last));

  const TempFolder folder;
  check_ended_well(train({"--preset", "char-fast", "--max-iters", "1", "--eval-iters", "2",
                          "--final-eval", "none", "--no-sample", "--out-dir", folder / "run"}));
  const tapegrad::Json now = tapegrad::read_json_object(folder / "run/config.json");
  tapegrad::Json drawn = tapegrad::parse_json<tapegrad::Json>(between("<desc>", "</desc>"), 4);
  for (const char* name : {"max_iters", "lr_decay_iters", "warmup_iters"}) {
    drawn["optimizer"][name] = now["optimizer"][name];
  }
  CHECK(drawn["model"] == now["model"]);
  CHECK(drawn["optimizer"] == now["optimizer"]);
  const std::string metrics = TempFolder::get(folder / "run/metrics.jsonl");
  const auto line = tapegrad::parse_json<tapegrad::Json>(metrics.substr(0, metrics.find('\n')), 2);
  CHECK(std::abs(line["val_loss"].get<double>() - first) < 0.1);
}

// scripts/recipes_picture.py draws it anew.
TEST_CASE("the picture of the recipes has the numbers of their table", "[report]") {
  const fs::path docs = fs::path(tapegrad::places::kSources) / "docs";
  const std::string svg = TempFolder::get(docs / "recipes.svg");
  const std::string open = "<g id=\"runs\" data-values=\"";
  const std::size_t begin = svg.find(open) + open.size();
  REQUIRE(begin > open.size());
  std::istringstream pairs(svg.substr(begin, svg.find('"', begin) - begin));
  std::istringstream lines(TempFolder::get(docs / "recipes.md"));
  std::string line, pair;
  while (line.find("| blocks × channels") == line.npos) REQUIRE(std::getline(lines, line));
  std::getline(lines, line);  // the rule below the heading
  while (std::getline(lines, line) && line.starts_with("|")) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    REQUIRE(cells.size() > 6);
    if (cells[4].find_first_of("0123456789") == std::string::npos) continue;  // work unknown
    CAPTURE(line);
    std::erase(cells[4], ',');
    REQUIRE(pairs >> pair);
    const std::size_t comma = pair.find(',');
    CHECK(std::stod(cells[4]) == std::stod(pair.substr(0, comma)));
    CHECK_THAT(cells[6], ContainsSubstring(pair.substr(comma + 1)));
  }
  CHECK_FALSE(pairs >> pair);
}
