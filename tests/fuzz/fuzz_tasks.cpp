// A task, its items, and a file of --per-item.

#include "tapegrad/apps/evaluate/items/item_file.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

namespace {

void read_items_of(const char* name, const std::filesystem::path& items) {
  evaluation::Task task = evaluation::open_task(name);
  task.items = items;
  task.num_fewshot = 0;
  for (const evaluation::Item& item : evaluation::read_items(task, 4)) {
    if (item.choices.empty() || item.right >= item.choices.size()) fuzz::finding("no right choice");
    if (item.contexts.size() != 1 && item.contexts.size() != item.choices.size())
      fuzz::finding("choices without contexts");
  }
}

// What the file says of an item can be scored.
void read_stored(const std::filesystem::path& path) {
  const evaluation::StoredItems stored(path);
  for (const char* name : {"piqa", "lambada_openai", "gsm8k"}) {
    const evaluation::Task task = evaluation::open_task(name);
    evaluation::Item item{.where = path.string(), .line = 1, .fingerprint = "a", .choices = {"a"}};
    if (task.output == evaluation::OutputType::multiple_choice) item.choices.push_back("b");
    if (const auto output = stored.find(task, item)) {
      evaluation::scores_of(task, item, *output);
      stored.asked(task, item);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto path = fuzz::put("input.json", fuzz::text_of(data + 1, size - 1));
  fuzz::accepts("input.json", [&] {
    switch (data[0]) {
      case 't':
        return static_cast<void>(evaluation::open_task(path.string()));
      case 'c':
        return read_items_of("arc_easy", path);
      case 'g':
        return read_items_of("gsm8k", path);
      default:
        return read_stored(path);
    }
  });
  return 0;
}
