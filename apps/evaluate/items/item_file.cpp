#include "tapegrad/apps/evaluate/items/item_file.h"

#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::evaluation {
namespace {

constexpr std::int64_t kMostItemFileBytes = std::int64_t{4} << 30;
constexpr int kMostLineDepth = 4;
constexpr const char* kBeginAnew = "--overwrite begins anew";

Json json_of(const ItemOrigin& o) {
  return {{"model", o.model},
          {"checkpoint", o.checkpoint},
          {"fingerprint", o.fingerprint},
          {"weights", o.weights},
          {"cache", o.cache}};
}

ItemOrigin origin_of(const std::string& place, const Json& json) {
  ItemOrigin o;
  get(place, json, "model", o.model);
  get(place, json, "checkpoint", o.checkpoint);
  get(place, json, "fingerprint", o.fingerprint);
  get(place, json, "weights", o.weights);
  get(place, json, "cache", o.cache);
  return o;
}

std::string fingerprint_with(const Json& contexts, const Task& task, const Item& item) {
  Json seen = {contexts, item.delimiter, item.choices, item.right, item.chat};
  if (task.output == OutputType::generate_until)
    seen = {contexts, task.until, task.max_gen_toks, item.chat};
  return fingerprint(json_text(seen));
}

// Of all that the output depends on, apart from the model.
std::string prompt_of(const Task& task, const Item& item) {
  Json seen = item.contexts;
  if (!item.letters.empty()) seen = {item.contexts, item.letters};
  return fingerprint_with(seen, task, item);
}

// The same, apart from what the chat template of a model makes of it.
std::string question_of(const Task& task, const Item& item) {
  return item.chat ? fingerprint_with(item.question, task, item) : prompt_of(task, item);
}

void check_same(const std::filesystem::path& path, const ItemOrigin& there, const ItemOrigin& now) {
  const auto same = [&](const char* name, const std::string& a, const std::string& b) {
    check(a == b, "--per-item {}: '{}' is {} there ({}), and {} now ({}): {}", path.string(), name,
          a, there.model, b, now.model, kBeginAnew);
  };
  same("fingerprint", there.fingerprint, now.fingerprint);
  same("weights", there.weights, now.weights);
  same("cache", there.cache, now.cache);
}

// Nothing but an empty file or one of --per-item may be lost by --overwrite.
void check_replaceable(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, kMostItemFileBytes, Links::refused);
  if (bytes.empty()) return;
  try {
    const std::string first = bytes.substr(0, bytes.find('\n'));
    origin_of(path.string(), parse_json<Json>(first, kMostLineDepth));
  } catch (const Error&) {
    fail("--overwrite: {}: this is no file of --per-item, and stays", path.string());
  }
}

}  // namespace

StoredItems::StoredItems(std::filesystem::path path) : path_(std::move(path)) {
  whole_ = read_file(path_, kMostItemFileBytes);
  const std::size_t bytes = whole_.size();
  whole_.resize(whole_.rfind('\n') + 1);  // npos + 1 is 0
  cut_off_ = whole_.size() < bytes;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < whole_.size();) {
    const std::size_t end = whole_.find('\n', begin);
    const std::string place = fmt::format("{}, line {}", path_.string(), ++number);
    const std::string_view text = std::string_view(whole_).substr(begin, end - begin);
    begin = end + 1;
    try {
      Json json = parse_json<Json>(text, kMostLineDepth);
      if (number == 1) {
        origin_ = origin_of(place, json);
        continue;
      }
      Key key;
      get(place, json, "task", std::get<0>(key));
      get(place, json, "line", std::get<1>(key));
      get(place, json, "item", std::get<2>(key));
      lines_.insert_or_assign(std::move(key), Line{number, std::move(json)});
    } catch (const Error& error) {
      const std::string what = error.what();
      fail("{}: this is no line of --per-item: {}", place,
           what.starts_with(place) ? what.substr(place.size() + 2) : what);
    }
  }
}

std::optional<ItemOutput> StoredItems::find(const Task& task, const Item& item) const {
  const auto found = lines_.find({task.name, item.line, item.fingerprint});
  if (found == lines_.end()) return std::nullopt;
  return output_of(fmt::format("{}, line {}", path_.string(), found->second.number), task, item,
                   found->second.json);
}

ItemOutput StoredItems::asked(const Task& task, const Item& item) const {
  const auto output = find(task, item);
  if (!output) {
    const auto other = lines_.lower_bound({task.name, item.line, ""});
    if (other != lines_.end() && std::get<0>(other->first) == task.name &&
        std::get<1>(other->first) == item.line) {
      fail("{}, line {}: task {} has another item there than {}", path_.string(),
           other->second.number, task.name, item.where);
    }
    fail("{}: it does not have task {}, line {}, as it is in {}", path_.string(), task.name,
         item.line, item.where);
  }
  const Line& line = lines_.at({task.name, item.line, item.fingerprint});
  const std::string place = fmt::format("{}, line {}", path_.string(), line.number);
  if (task.output != OutputType::loglikelihood) {
    const Json right =
        task.output == OutputType::multiple_choice ? Json(item.right) : Json(item.answer);
    const Json there = line.json.value("right", Json());
    check(there == right, "{}: the right answer of task {} is {} there, and {} in {}", place,
          task.name, json_text(there), json_text(right), item.where);
  }
  std::string question;
  get(place, line.json, line.json.contains("question") ? "question" : "prompt", question);
  check(question == question_of(task, item),
        "{}: the other model was asked something else of task {} than this one by {}: its prompt "
        "or its choices differ",
        place, task.name, item.where);
  return *output;
}

ItemFile::ItemFile(const std::filesystem::path& path, const ItemOrigin& origin, bool overwrite) {
  file_.emplace(path);  // refuses links
  if (overwrite) {
    check_replaceable(path);
  } else {
    stored_ = StoredItems(path);
  }
  if (stored_.whole_.empty()) {
    check(!stored_.cut_off_, "{}: this is no file of --per-item", path.string());
    write_file_atomically(path, json_text(json_of(origin)) + "\n");
  } else {
    check_same(path, stored_.origin_, origin);
    if (stored_.cut_off_) write_file_atomically(path, stored_.whole_);
  }
  stored_.whole_ = {};
  file_.emplace(path);
}

std::optional<ItemOutput> ItemFile::find(const Task& task, const Item& item) const {
  const auto output = stored_.find(task, item);
  if (!output) return std::nullopt;
  const StoredItems::Line& line = stored_.lines_.at({task.name, item.line, item.fingerprint});
  std::string prompt;
  get(stored_.path_, line.json, "prompt", prompt);
  check(prompt == prompt_of(task, item),
        "--per-item {}, line {}: the model saw another prompt of {}: {}", stored_.path_.string(),
        line.number, item.where, kBeginAnew);
  return output;
}

void ItemFile::add(const Task& task, const Item& item, const ItemOutput& output) {
  if (!file_) return;
  Json line = {{"task", task.name}, {"line", item.line}};
  if (item.id) line["id"] = *item.id;
  add_to(line, task, item, output);
  line["item"] = item.fingerprint;
  line["prompt"] = prompt_of(task, item);
  if (item.chat) line["question"] = question_of(task, item);
  file_->append(json_text(line) + "\n");
}

}  // namespace tapegrad::evaluation
