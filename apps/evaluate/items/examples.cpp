#include "tapegrad/apps/evaluate/items/examples.h"

#include <algorithm>
#include <numeric>

#include "tapegrad/base/file.h"

namespace tapegrad::evaluation {
namespace {

std::string group_of(const Task& task, const ItemLine& line) {
  if (!task.fewshot_same) return {};
  const auto value = line.doc.find(*task.fewshot_same);
  check(value != line.doc.end(), "{}: {}: 'fewshot_same': the item has no '{}'", line.item.where,
        task.place, *task.fewshot_same);
  return json_text(*value);
}

}  // namespace

Examples::Examples(const Task& task)
    : task_(task), path_(task.fewshot_items.value_or(*task.items)) {
  same_file_ = resolved_path(path_) == resolved_path(*task.items);
  if (task.num_fewshot == 0) return;
  // One more than are shown, since an item of the same file is no example of its own.
  const bool all = task.sampler == FewshotSampler::drawn;
  const auto most = static_cast<std::size_t>(task.num_fewshot + 1);
  for_each_line(path_, [&](std::string_view text, std::int64_t number) {
    Candidate candidate{std::string(text), number};
    const std::string name = task.fewshot_same ? group_of(task, line_of(candidate)) : "";
    std::vector<Candidate>& group = groups_[name].candidates;
    if (all || group.size() < most) group.push_back(std::move(candidate));
    return all || task.fewshot_same.has_value() || group.size() < most;
  });
}

const ItemLine& Examples::line_of(Candidate& candidate) {
  if (!candidate.line) candidate.line = item_line(task_, path_, candidate.text, candidate.number);
  return *candidate.line;
}

std::vector<const Item*> Examples::shown(const ItemLine& line) {
  std::vector<const Item*> shown;
  if (task_.num_fewshot == 0) return shown;
  Group& group = groups_[group_of(task_, line)];
  const std::size_t there = group.candidates.size();
  const bool drawn = task_.sampler == FewshotSampler::drawn;
  const bool spare = same_file_ || task_.fewshot_spare;
  std::vector<std::size_t> places(there);
  if (drawn) {
    const auto wanted = static_cast<std::size_t>(task_.num_fewshot + (spare ? 1 : 0));
    check(wanted <= there, "{}: {}: there are {} examples to draw {} from, and 'num_fewshot' is {}",
          line.item.where, task_.place, there, wanted, task_.num_fewshot);
    places = group.random.sample(there, wanted);
  } else {
    std::iota(places.begin(), places.end(), std::size_t{0});
  }
  for (const std::size_t place : places) {
    if (std::ssize(shown) == task_.num_fewshot) break;
    const ItemLine& example = line_of(group.candidates[place]);
    const bool itself = drawn ? spare && example.doc == line.doc
                              : same_file_ && example.item.line == line.item.line;
    if (!itself) shown.push_back(&example.item);
  }
  // Of a document that stands in a file twice, both may be drawn: then one fewer is shown, as the
  // harness does.
  check(std::ssize(shown) == task_.num_fewshot || (drawn && !shown.empty()),
        "{}: {}: there are {} examples for it, and 'num_fewshot' is {}", line.item.where,
        task_.place, shown.size(), task_.num_fewshot);
  return shown;
}

}  // namespace tapegrad::evaluation
