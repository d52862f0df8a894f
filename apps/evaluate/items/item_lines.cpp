#include "tapegrad/apps/evaluate/items/item_lines.h"

#include <algorithm>
#include <charconv>

#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/jinja/internal/characters.h"

namespace tapegrad::evaluation {
namespace {

constexpr int kMostItemDepth = 16;
constexpr std::size_t kMostChoices = 256;  // each is a row of one pass
constexpr std::int64_t kMostItemBytes = std::int64_t{4} << 30;

std::vector<std::string> choices_of(const Task& task, const std::string& where, const Json& doc) {
  std::vector<std::string> choices;
  if (!task.lists_choices) {
    for (const TaskTemplate& choice : task.choices) choices.push_back(choice.render(where, doc));
    return choices;
  }
  const Json list = parse_json<Json>(task.choices.front().render(where, doc), kMostItemDepth);
  const bool texts = list.is_array() && std::all_of(list.begin(), list.end(),
                                                    [](const Json& e) { return e.is_string(); });
  check(texts && list.size() >= 2, "{}: {}: 'doc_to_choice' must give a list of two texts or more",
        where, task.place);
  return list.get<std::vector<std::string>>();
}

// The place of the right choice: a number from 0 on, or else the choice's text.
std::size_t right_of(const Task& task, const std::string& where, const Json& doc,
                     const std::vector<std::string>& choices) {
  const std::string target = task.target.front().render(where, doc);
  std::size_t number = 0;
  const char* const end = target.data() + target.size();
  const auto [read, error] = std::from_chars(target.data(), end, number);
  const bool is_place = error == std::errc() && read == end && number < choices.size();
  if (!is_place) {
    number = static_cast<std::size_t>(std::find(choices.begin(), choices.end(), target) -
                                      choices.begin());
  }
  check(number < choices.size(),
        "{}: {}: 'doc_to_target' gives '{}', which is neither a number from 0 to {} nor one of the "
        "choices",
        where, task.place, target, choices.size() - 1);
  return number;
}

}  // namespace

void for_each_line(const std::filesystem::path& path,
                   const std::function<bool(std::string_view, std::int64_t)>& on_line) {
  const std::string bytes = read_file(path, kMostItemBytes);
  std::string_view rest = without_byte_order_mark(bytes);
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!on_line(line, number)) return;
  }
}

ItemLine item_line(const Task& task, const std::filesystem::path& path, std::string_view text,
                   std::int64_t number) {
  ItemLine line{.item = {.where = fmt::format("{}, line {}", path.string(), number),
                         .line = number,
                         .fingerprint = fingerprint(text)},
                .doc = {}};
  Item& item = line.item;
  try {
    line.doc = parse_json<Json>(text, kMostItemDepth);
  } catch (const Error& error) {
    fail("{}: {}", item.where, error.what());
  }
  check(line.doc.is_object(), "{}: an item must be a JSON object", item.where);
  const auto id = line.doc.find("id");
  if (id != line.doc.end() && (id->is_string() || id->is_number())) item.id = *id;
  if (task.output == OutputType::multiple_choice) {
    item.choices = choices_of(task, item.where, line.doc);
    check(item.choices.size() <= kMostChoices,
          "{}: {}: the item has {} choices, and {} is the most", item.where, task.place,
          item.choices.size(), kMostChoices);
  } else {
    item.choices = {task.target.front().render(item.where, line.doc)};
  }
  for (const TaskTemplate& t : task.texts) item.contexts.push_back(t.render(item.where, line.doc));
  check(item.contexts.size() == 1 || item.contexts.size() == item.choices.size(),
        "{}: {}: 'doc_to_text' has {} texts, and the item {} choices", item.where, task.place,
        item.contexts.size(), item.choices.size());
  if (task.output == OutputType::multiple_choice) {
    item.right = right_of(task, item.where, line.doc, item.choices);
  }
  item.answer =
      task.answer.empty() ? item.choices.front() : task.answer.front().render(item.where, line.doc);
  if (task.trims_answer) {
    item.answer = data::jinja::strip_left(data::jinja::strip_right(item.answer));
  }
  item.delimiter = task.target_delimiter;
  return line;
}

}  // namespace tapegrad::evaluation
