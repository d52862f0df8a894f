#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "tapegrad/apps/cli/cli.h"
#include "tapegrad/autograd/base/json_file.h"
#include "tapegrad/run/model_folder.h"
#include "tapegrad/run/run_options.h"

namespace tapegrad::apps {

// One table for each program's options, Options::visit(o, visitor), is all that reading, printing,
// saving and comparing them go by. It names groups, and in each of them values, choices and flags.

template <class Options>
struct Preset {
  std::string name, summary;
  Options options;
};
template <class Options>
using Presets = std::vector<Preset<Options>>;

// For visitors to which a value is a value, whatever its option looks like.
template <class Derived>
struct PlainVisitor {
  Lasting lasting = Lasting::call;
  void group(const char*, Lasting l) { lasting = l; }
  template <class T>
  void operator()(const std::string& name, T& value, const char*, const char*,
                  double least = -std::numeric_limits<double>::infinity()) {
    static_cast<Derived*>(this)->visit(name, value);
    check_bound(name, value, least);
  }
  template <class T>
  void check_bound(const std::string& name, const T& value, double least) {
    if constexpr (std::is_arithmetic_v<T>) {
      static_cast<Derived*>(this)->bound(name, static_cast<double>(value), least);
    }
  }
  template <class T>
  void check_bound(const std::string& name, const std::optional<T>& value, double least) {
    if (value) check_bound(name, *value, least);
  }
  void bound(const std::string&, double, double) {}
  template <class T>
  void choice(const std::string& name, T& value, const std::vector<std::string>& choices,
              const char*) {
    static_cast<Derived*>(this)->visit(name, value);
    static_cast<Derived*>(this)->chosen(name, value, choices);
  }
  void chosen(const std::string&, const std::string&, const std::vector<std::string>&) {}
  template <class T>
  void flag(const std::string& name, T& value, const char*, bool = false) {
    static_cast<Derived*>(this)->visit(name, value);
  }
};

inline std::string json_name(const std::string& option) {
  std::string name = option.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct Registrar {
  CommandLine& cli;
  void group(const char* heading, Lasting) { cli.group(heading); }
  template <class T>
  void operator()(const std::string& name, T& value, const char* placeholder, const char* help,
                  double least = -std::numeric_limits<double>::infinity()) {
    cli.option(name, value, placeholder, help, least);
  }
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& choices,
              const char* help) {
    cli.choice(name, value, choices, help);
  }
  void flag(const std::string& name, bool& value, const char* help, bool negatable = false) {
    cli.flag(name, value, help, negatable);
  }
};

struct Writer : PlainVisitor<Writer> {
  Json json = Json::object();
  template <class T>
  void visit(const std::string& name, const T& value) {
    if (lasting != Lasting::call) json[json_name(name)] = json_of(value);
  }
};

struct Reader : PlainVisitor<Reader> {
  const std::filesystem::path& path;
  const Json& json;
  Reader(const std::filesystem::path& p, const Json& j) : path(p), json(j) {}
  template <class T>
  void visit(const std::string& name, T& value) {
    if (has(name)) get(path, json, json_name(name), value);
  }
  // A run that is older than an option keeps that option's default.
  bool has(const std::string& name) const {
    return lasting != Lasting::call && json.contains(json_name(name));
  }
  void bound(const std::string& name, double value, double least) {
    check(value >= least, "{}: '{}' must be at least {}, not {}", path.string(), json_name(name),
          least, value);
  }
  void chosen(const std::string& name, const std::string& value,
              const std::vector<std::string>& choices) {
    check(!has(name) || std::find(choices.begin(), choices.end(), value) != choices.end(),
          "{}: '{}' must be one of {}, not {}", path.string(), json_name(name),
          fmt::join(choices, ", "), value);
  }
};

// For config.json: how the run was set up, without where it lies and how it was called.
template <class Options>
Json options_to_json(const Options& options) {
  Writer writer;
  Options::visit(options, writer);
  return writer.json;
}

template <class Options>
Options options_from_json(const std::filesystem::path& path, const Json& json) {
  Options options;
  Options::visit(options, Reader(path, json));
  return options;
}

// What cannot change is as it was stored.
struct Comparer : PlainVisitor<Comparer> {
  const Json stored;
  template <class Options>
  explicit Comparer(const Options& o) : stored(options_to_json(o)) {}
  template <class T>
  void visit(const std::string& name, const T& value) {
    if (lasting != Lasting::model || name == "--corpus") return;
    const Json& before = stored.at(json_name(name));
    if (json_of(value) != before) {
      usage_error("{} {} does not fit the run to resume, which has {}", name, json_of(value).dump(),
                  before.dump());
    }
  }
};

template <class Options>
std::vector<std::string> names_of(const Presets<Options>& presets) {
  std::vector<std::string> names;
  for (const auto& preset : presets) names.push_back(preset.name);
  return names;
}

// The options of the run in `folder`. Error if there is none, or one with values that mean nothing.
template <class Options>
Options stored_options(const std::string& folder) {
  const auto path = std::filesystem::path(folder) / config_file;
  check(std::filesystem::exists(path), "{}: there is no run to resume here", folder);
  Json training;
  get(path, read_config(folder, Options().format), "training", training);
  Options options = options_from_json<Options>(path, training);
  try {
    options.check_values();
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return options;
}

// The options that the arguments ask for: those of the preset, or of the run to resume, with what
// was given explicitly in their place. `adjust` then sets those that follow from others. Nothing if
// --help was all that was wanted. Throws UsageError for values that mean nothing and for what
// cannot change when a run is resumed. `cli` has the program's examples.
template <class Options>
std::optional<Options> parse_run_options(
    CommandLine& cli, const Presets<Options>& presets, int argc, const char* const* argv,
    const std::function<void(Options&)>& adjust = [](Options&) {}) {
  Options o = presets.front().options;
  Options::visit(o, Registrar{cli});
  for (const auto& preset : presets) cli.list("Presets", preset.name, preset.summary);
  if (!cli.parse(argc, argv)) return std::nullopt;

  const Options call = o;
  const auto preset = std::find_if(presets.begin(), presets.end(),
                                   [&](const auto& p) { return p.name == call.preset; });
  o = call.resumes() && !call.out_dir.empty() ? stored_options<Options>(call.out_dir)
                                              : preset->options;
  const Options stored = o;
  cli.apply();
  for (std::string& path : o.corpus) {
    if (path.empty()) usage_error("--corpus: a path is empty");
    path = std::filesystem::absolute(path).string();
  }
  if (cli.given("--out-dir") && o.out_dir.empty()) usage_error("--out-dir: the path is empty");
  // A preset's least rate is no reason to raise one that was set below it.
  if (!cli.given("--min-lr") && o.min_lr > o.learning_rate) o.min_lr = o.learning_rate / 10;
  adjust(o);
  o.settle();
  as_usage([&] {
    o.check_values();
    check(!o.resumes() || !o.out_dir.empty(), "--init-from resume needs --out-dir");
    check(!o.resumes() || !o.overwrite, "--init-from resume and --overwrite contradict each other");
  });
  if (o.resumes()) Options::visit(o, Comparer(stored));
  return o;
}

}  // namespace tapegrad::apps
