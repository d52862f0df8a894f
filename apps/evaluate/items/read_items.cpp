#include "tapegrad/apps/evaluate/items/examples.h"
#include "tapegrad/base/fingerprint.h"

namespace tapegrad::evaluation {
namespace {

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
void begin_contexts(const Task& task, ItemLine& line, const std::vector<const Item*>& examples,
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
  Examples examples(task);
  std::vector<Item> items;
  for_each_line(*task.items, [&](std::string_view text, std::int64_t number) {
    ItemLine line = item_line(task, *task.items, text, number);
    begin_contexts(task, line, examples.shown(line), chat);
    items.push_back(std::move(line.item));
    return std::ssize(items) < limit;
  });
  check(!items.empty(), "{}: there is no item", task.items->string());
  return items;
}

}  // namespace tapegrad::evaluation
