// Who may include whom: the rooms of the house and the doors between them, read from the sources.

#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad::testing;

namespace {

// The files that each folder may include: files of these folders, or single files. "nn*" stands
// for nn and all folders in it. A folder that is not in this table may not have sources. Rooms of
// run/ and apps/ stand below those that they may use.
const Names kEngine = {"base*", "autograd/tensor", "autograd/gemm", "autograd/kernels", "autograd"};

Names operator+(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  return names;
}

const std::map<std::string, Names> kMayInclude = {
    {"base", {"base*"}},
    {"base/json", {"base*"}},
    {"base/memory", {"base*"}},
    {"base/text", {"base*"}},
    {"comm", {"base*", "comm"}},
    {"autograd/tensor", {"base*", "autograd/tensor"}},
    {"autograd/gemm", {"base*", "autograd/tensor", "autograd/gemm"}},
    {"autograd/kernels", {"base*", "autograd/tensor", "autograd/gemm", "autograd/kernels"}},
    {"autograd/formats", {"base*", "autograd/tensor", "autograd/formats"}},
    {"autograd", kEngine + Names{"autograd/ops"}},
    {"autograd/quantized", kEngine + Names{"autograd/quantized*"}},
    {"autograd/quantized/kernels", {"base*", "autograd/quantized*"}},
    {"autograd/ops", kEngine + Names{"autograd/onnx", "autograd/quantized", "autograd/ops"}},
    {"autograd/onnx", kEngine + Names{"autograd/onnx"}},
    {"autograd/check", {"base*", "autograd*"}},
    {"nn", {"base*", "autograd*", "nn*"}},
    {"nn/config", {"base*", "nn"}},
    {"nn/generation", {"base*", "autograd*", "nn*"}},
    {"nn/generation/speculative", {"base*", "autograd*", "nn*"}},
    {"nn/layers", {"base*", "autograd*", "nn", "nn/generation/kv_cache.h", "nn/layers"}},
    {"nn/lora", {"base*", "autograd*", "nn*"}},
    {"nn/losses", {"base*", "autograd*", "nn*"}},
    {"optim", {"base*", "comm", "autograd*", "optim*"}},
    {"optim/optimizers", {"base*", "comm", "autograd*", "optim*"}},
    {"optim/processes", {"base*", "comm", "autograd*", "optim*"}},
    {"optim/meetings", {"base*", "comm", "autograd*", "optim*"}},
    {"optim/lbfgs", {"base*", "autograd*", "optim/lbfgs"}},
    {"data/tokenize", {"base*", "data/tokenize*"}},
    {"data/tokenize/bpe", {"base*", "data/tokenize*"}},
    {"data/tokenize/hf", {"base*", "data/tokenize*"}},
    {"data/tokenize/hf/steps", {"base*", "data/tokenize*"}},
    {"data/tokenize/sentencepiece", {"base*", "data/tokenize*"}},
    {"data/tokenize/train", {"base*", "data/tokenize*"}},
    {"data/grammar", {"base*", "data/tokenize*", "data/grammar*"}},
    {"data/grammar/calls",
     {"base*", "data/tokenize*", "data/chat/answers/internal/call_format.h", "data/grammar*"}},
    {"data/grammar/schema", {"base*", "data/grammar*"}},
    {"data/corpus", {"base*", "data/tokenize*", "data/corpus"}},
    {"data/jinja", {"base*", "data/jinja*"}},
    {"data/jinja/functions", {"base*", "data/jinja*"}},
    {"data/jinja/syntax", {"base*", "data/jinja*"}},
    {"data/chat",
     {"base*", "data/tokenize*", "data/corpus", "data/jinja", "data/chat",
      "data/chat/answers/internal/call_format.h", "data/chat/answers/internal/value_scanner.h"}},
    {"data/chat/answers", {"base*", "data/chat*"}},
    {"data/chat/tools", {"base*", "data/jinja", "data/chat*"}},
    {"data", {"base*", "data*"}},
    {"arrays",
     {"base*", "autograd/tensor", "autograd/formats", "data/corpus/internal/unpack.h", "arrays"}},
    {"run/options",
     {"base*", "autograd/tensor", "autograd/gemm", "autograd/quantized", "nn", "optim",
      "optim/meetings", "run/options"}},
    {"run/folder",
     {"base*", "comm", "autograd", "autograd/gemm", "nn", "optim", "data/tokenize", "run/options",
      "run/folder"}},
    {"run/plan", {"base*", "comm", "autograd/gemm", "nn", "optim", "run/options", "run/plan"}},
    {"run/models",
     {"base*", "autograd/tensor", "autograd/formats", "nn*", "data*", "run/options", "run/folder",
      "run/models*"}},
    {"run/models/adapters",
     {"base*", "autograd", "autograd/tensor", "nn", "autograd/formats", "run/folder",
      "run/models/adapters", "run/models/families*", "run/models/formats/gguf",
      "run/models/formats/hf"}},
    {"run/models/families",
     {"base*", "autograd/tensor", "autograd/formats", "nn", "run/folder/config.h",
      "run/models/families*"}},
    {"run/models/families/experts", {"run/models/families"}},
    {"run/models/families/keys", {"run/models/families*"}},
    {"run/models/families/recurrent", {"autograd", "run/models/families"}},
    {"run/models/formats",
     {"base*", "autograd/tensor", "nn", "autograd/formats", "data/tokenize*", "run/folder",
      "run/models*"}},
    {"run/models/formats/gguf",
     {"base*", "autograd/tensor", "autograd", "autograd/formats", "data/tokenize*", "run/folder",
      "run/models", "run/models/families*", "run/models/formats", "run/models/formats/gguf"}},
    {"run/models/formats/hf",
     {"base*", "autograd/tensor", "autograd", "autograd/formats", "data/tokenize*", "run/folder",
      "run/models/families*", "run/models/formats", "run/models/formats/hf"}},
    {"run/models/formats/onnx",
     {"base*", "autograd/tensor", "autograd", "autograd/formats", "autograd/onnx", "nn",
      "data/pairs.h", "data/tokenize*", "run/folder", "run/models/families*", "run/models/formats",
      "run/models/formats/hf", "run/models/formats/onnx"}},
    {"run/corpus", {"base*", "data*", "run/folder", "run/models/formats/nanogpt.h", "run/corpus*"}},
    {"run/corpus/chat",
     {"base*", "autograd/tensor", "nn", "data*", "run/models", "run/corpus", "run/corpus/chat"}},
    {"run/corpus/prepare",
     {"base*", "data*", "run/folder", "run/plan/time_left.h", "run/models", "run/corpus*"}},
    {"run/record",
     {"base*", "comm", "autograd*", "optim", "run/options", "run/folder", "run/plan",
      "run/record"}},
    {"run/train",
     {"base*", "comm", "autograd*", "nn*", "data*", "optim", "run/options", "run/folder",
      "run/plan", "run/models", "run/corpus", "run/record", "run/train"}},
    {"run/train/objectives",
     {"base*", "nn*", "data", "run/folder", "run/models", "run/plan", "run/record", "run/train*"}},
    {"run/train/evaluation", {"base*", "nn", "data", "run/record", "run/train*"}},
    {"apps/chart", {"base*", "apps/chart"}},
    {"apps/http", {"base*", "apps/http"}},
    {"apps/events", {"base*", "run/folder", "apps/events"}},
    {"apps/watch", {"base*", "run/folder", "apps/http", "apps/watch*"}},
    {"apps/watch/report", {"base*", "nn/summary.h", "run/folder", "apps/chart", "apps/watch*"}},
    {"apps/cli", {"base*", "comm", "autograd/gemm/gemm.h", "run/folder", "apps/cli"}},
    {"apps/cli/training",
     {"base*", "comm", "autograd/gemm/gemm.h", "autograd/gemm/product_rate.h", "run/options",
      "run/folder", "run/corpus", "run/train", "apps/cli*", "apps/events", "apps/watch*"}},
    {"apps/first",
     {"base/terminal.h", "autograd/tensor/stored_type.h", "run/models/formats", "run/options",
      "apps/cli"}},
    {"apps/sample",
     {"base*", "autograd*", "nn*", "data/tokenize", "run/models", "run/train/evaluation",
      "apps/sample"}},
    {"apps/chat",
     {"base*", "nn/generation", "data/chat*", "run/models", "apps/chat", "apps/sample"}},
    {"apps/check", {"base*", "autograd*", "nn*", "apps/cli", "apps/check"}},
    {"apps/demo", {"base*", "autograd*", "nn*", "apps/chart", "apps/demo"}},
    {"apps/bench",
     {"base*", "autograd*", "nn*", "optim", "run/options", "run/plan", "run/record", "run/train",
      "apps/bench"}},
    {"apps/evaluate",
     {"base*", "autograd", "nn/generation", "data/chat", "data/corpus", "data/jinja", "run/corpus*",
      "run/models", "run/folder", "run/train/evaluation", "apps/cli", "apps/events", "apps/sample",
      "apps/evaluate*"}},
    {"apps/evaluate/items",
     {"base*", "data/chat", "data/jinja", "data/tokenize", "apps/evaluate/items"}},
    {"apps/train",
     {"base*", "nn*", "run*", "apps/bench", "apps/cli*", "apps/train*", "apps/sample"}},
    {"apps/train/plan",
     {"base*", "nn*", "run*", "apps/bench", "apps/cli*", "apps/train/objectives.h",
      "apps/train/plan", "apps/sample"}},
    {"apps/inspect", {"base*", "autograd", "nn", "run/models", "apps/inspect"}},
    {"apps/python",
     {"base*", "autograd*", "nn*", "optim", "data/tokenize", "arrays", "run/folder", "run/models",
      "apps/sample/sampling_options.h", "apps/train/train_command.h",
      "apps/watch/report/report_html.h", "apps/python"}},
    {"apps/seq2seq",
     {"base*", "nn*", "data*", "run/corpus", "run/models", "run/record", "apps/cli*",
      "apps/seq2seq"}},
    {"apps/serve",
     {"base*", "nn*", "data*", "run/folder", "run/models", "apps/http", "apps/sample/speculation.h",
      "apps/sample/stop_text.h", "apps/serve*"}},
    {"apps/serve/api",
     {"base*", "autograd", "nn*", "data*", "apps/http", "apps/sample/sampling_options.h",
      "apps/serve*"}},
    {"apps/serve/api/fields",
     {"base*", "data/chat", "apps/http", "apps/serve/api/fields", "apps/serve"}},
    {"apps/serve/api/responses", {"base*", "nn*", "data*", "apps/http", "apps/serve*"}},
    {"apps/serve/api/tools",
     {"base*", "nn*", "data*", "run/models/internal/call_mask.h", "apps/serve*"}},
    {"apps/serve/models",
     {"base*", "autograd/formats", "autograd/quantized", "autograd/tensor", "nn*", "run/folder",
      "run/models", "run/options", "apps/cli/run_main.h", "apps/serve*"}},
    {"apps/sweep", {"base*", "run/folder", "apps/cli", "apps/events", "apps/sweep"}},
    {"apps/web",
     {"base*", "autograd", "nn*", "optim*", "data/tokenize*", "run/folder",
      "run/models/formats/web_format.h", "apps/inspect", "apps/web"}},
    {"apps/tokenizer",
     {"base*", "data/corpus", "data/tokenize*", "run/corpus", "run/folder", "run/models",
      "apps/cli", "apps/events", "apps/inspect/token_text.h", "apps/tokenizer"}},
    {"apps/commands",
     {"base*", "autograd", "autograd/formats", "nn*", "optim/meetings", "data/corpus",
      "run/options", "run/folder", "run/models*", "run/corpus*", "apps*"}},
    {"apps", {"apps/cli", "apps"}},
    {kTutorial, {"base*", "autograd*", "nn*", "optim*", "data*", kTutorial}},
};

bool allowed(const Names& rules, const std::string& path) {
  const std::string folder = folder_of(path);
  if (rules.count(folder) == 1 || rules.count(path) == 1) return true;
  for (const std::string& rule : rules) {
    const bool whole_tree = rule.back() == '*';
    if (whole_tree && (folder + "/").starts_with(rule.substr(0, rule.size() - 1) + "/"))
      return true;
  }
  return false;
}

}  // namespace

TEST_CASE("each folder includes only what its room may use", "[layers]") {
  const auto sources = read_sources(kLibraryAndPrograms);
  CHECK(sources.size() > 100);
  for (const auto& [path, text] : sources) {
    const auto rule = kMayInclude.find(folder_of(path));
    if (rule == kMayInclude.end()) {
      FAIL_CHECK(path << ": the table of this test does not say what the folder may include");
      continue;
    }
    for (const std::string& name : included(text, '"', '"')) {
      if (allowed(rule->second, source_path(name))) continue;
      FAIL_CHECK(path << " includes " << name << ", but files in " << rule->first
                      << "/ may include only " << listed(rule->second));
    }
  }
}

TEST_CASE("includes are spelled from tapegrad/ on, and name files that exist", "[layers]") {
  auto folders = kLibraryAndPrograms;
  folders.push_back("tests");
  const auto sources = read_sources(folders);
  const auto examples = read_sources({"examples"});  // users' files, whose headers are tested
  for (const auto& [path, text] : sources) {
    for (const std::string& name : included(text, '"', '"')) {
      INFO(path << " includes \"" << name << "\"");
      if (!name.starts_with("tapegrad/")) FAIL_CHECK("files of this project are \"tapegrad/…\"");
      const std::string file = source_path(name);
      if (sources.count(file) + examples.count(file) == 0) FAIL_CHECK("there is no such file");
    }
    for (const std::string& name : included(text, '<', '>')) {
      INFO(path << " includes <" << name << ">");
      if (name.starts_with("tapegrad/") && !path.starts_with("tests/consumer/")) {
        FAIL_CHECK("<tapegrad/…> is for users of the library; here it is \"tapegrad/…\"");
      }
    }
  }
}
