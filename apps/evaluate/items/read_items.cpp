#include <algorithm>
#include <charconv>
#include <map>

#include "tapegrad/apps/evaluate/items/eval_task.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/fingerprint.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::evaluation {
namespace {

constexpr int kMostItemDepth = 16;
constexpr std::size_t kMostChoices = 256;  // each is a row of one pass
constexpr std::int64_t kMostItemBytes = std::int64_t{4} << 30;

// A line of a file, as the question that it is alone.
struct Line {
  Item item;
  Json doc;
};

// Calls `on_line` with each line that is not blank and its number, until it returns false.
template <class F>
void for_each_line(const std::filesystem::path& path, const F& on_line) {
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

Line line_of(const Task& task, const std::filesystem::path& path, std::string_view text,
             std::int64_t number) {
  Line line{.item = {.where = fmt::format("{}, line {}", path.string(), number),
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
  item.delimiter = task.target_delimiter;
  return line;
}

// Examples that stand before a question, by the value that they share with it.
using Examples = std::map<std::string, std::vector<Line>>;

std::string group_of(const Task& task, const Line& line) {
  if (!task.fewshot_same) return {};
  const auto value = line.doc.find(*task.fewshot_same);
  check(value != line.doc.end(), "{}: {}: 'fewshot_same': the item has no '{}'", line.item.where,
        task.place, *task.fewshot_same);
  return json_text(*value);
}

// One more than are shown, since an item of the same file is no example of its own.
Examples examples_of(const Task& task, const std::filesystem::path& path) {
  Examples examples;
  const auto most = static_cast<std::size_t>(task.num_fewshot + 1);
  for_each_line(path, [&](std::string_view text, std::int64_t number) {
    Line line = line_of(task, path, text, number);
    std::vector<Line>& group = examples[group_of(task, line)];
    if (group.size() < most) group.push_back(std::move(line));
    return task.fewshot_same.has_value() || group.size() < most;
  });
  return examples;
}

// The examples of an item, none of which is the item itself.
std::vector<const Item*> shown_of(const Task& task, const Line& line, const Examples& examples,
                                  bool same_file) {
  std::vector<const Item*> shown;
  if (task.num_fewshot == 0) return shown;
  const auto group = examples.find(group_of(task, line));
  const std::vector<Line> none;
  for (const Line& example : group == examples.end() ? none : group->second) {
    if (std::ssize(shown) == task.num_fewshot) break;
    if (!same_file || example.item.line != line.item.line) shown.push_back(&example.item);
  }
  check(std::ssize(shown) == task.num_fewshot,
        "{}: {}: there are {} examples for it, and 'num_fewshot' is {}", line.item.where,
        task.place, shown.size(), task.num_fewshot);
  return shown;
}

std::string text_of(const Task& task, const std::vector<const Item*>& examples) {
  std::string text;
  for (const Item* e : examples) {
    text += e->context(e->right) + task.target_delimiter + e->choices[e->right] +
            task.fewshot_delimiter;
  }
  return text;
}

// What the template writes up to the model's answer.
std::string conversation_of(const Task& task, const ChatFormat& chat,
                            const std::string& description,
                            const std::vector<const Item*>& examples, const std::string& context) {
  data::Conversation conversation;
  const auto say = [&](const char* role, const std::string& content) {
    conversation.messages.push_back({.role = role, .content = content});
  };
  if (!description.empty()) say("system", description);
  if (chat.fewshot_as_multiturn) {
    for (const Item* e : examples) {
      say("user", e->context(e->right));
      say("assistant", e->choices[e->right]);
    }
    say("user", context);
  } else {
    say("user", text_of(task, examples) + context);
  }
  return chat.chat_template.render(conversation, true).text;
}

// Puts description and examples before the contexts of an item.
void begin_contexts(const Task& task, Line& line, const std::vector<const Item*>& examples,
                    const std::optional<ChatFormat>& chat) {
  Item& item = line.item;
  std::string description;
  for (const TaskTemplate& t : task.description) description += t.render(item.where, line.doc);
  item.chat = chat.has_value();
  if (item.chat) {
    item.delimiter = "";  // the template ends where an answer begins
    item.question = fingerprint(json_text(
        Json{description, text_of(task, examples), item.contexts, chat->fewshot_as_multiturn}));
  }
  const std::string beginning = chat ? "" : description + text_of(task, examples);
  for (std::string& context : item.contexts) {
    if (!chat) {
      context.insert(0, beginning);
      continue;
    }
    try {
      context = conversation_of(task, *chat, description, examples, context);
    } catch (const Error& error) {
      fail("{}: the chat template: {}", item.where, error.what());
    }
  }
}

}  // namespace

std::vector<Item> read_items(const Task& task, std::int64_t limit,
                             const std::optional<ChatFormat>& chat) {
  check(task.items.has_value(), "{}: it names no 'items': --items FILE does", task.place);
  const bool same_file =
      !task.fewshot_items || resolved_path(*task.fewshot_items) == resolved_path(*task.items);
  const Examples examples = task.num_fewshot == 0
                                ? Examples()
                                : examples_of(task, task.fewshot_items.value_or(*task.items));
  std::vector<Item> items;
  for_each_line(*task.items, [&](std::string_view text, std::int64_t number) {
    Line line = line_of(task, *task.items, text, number);
    begin_contexts(task, line, shown_of(task, line, examples, same_file), chat);
    items.push_back(std::move(line.item));
    return std::ssize(items) < limit;
  });
  check(!items.empty(), "{}: there is no item", task.items->string());
  return items;
}

}  // namespace tapegrad::evaluation
